"""A transaction that fails leaves nothing behind, and a connection that goes on."""

import sqlite3
from contextlib import closing

import pytest

from localsim.rules.db.database import SCHEMA_VERSION, NewerSchemaError, open_database, transaction


@pytest.fixture
def connection(tmp_path):
    with closing(open_database(tmp_path / "state.sqlite")) as found:
        found.execute("PRAGMA foreign_keys = ON")
        found.execute("CREATE TABLE parents (id INTEGER PRIMARY KEY)")
        found.execute("CREATE TABLE children (of REFERENCES parents DEFERRABLE INITIALLY DEFERRED)")
        yield found


def test_a_file_of_a_newer_localsim_is_refused(tmp_path):
    path = tmp_path / "other.sqlite"
    with closing(open_database(path)) as found:
        found.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(NewerSchemaError, match=f"has schema {SCHEMA_VERSION + 1}"):
        open_database(path)


def parents(connection):
    return [number for (number,) in connection.execute("SELECT id FROM parents ORDER BY id")]


def test_a_commit_that_fails_is_rolled_back_and_the_next_one_succeeds(connection):
    with (
        pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY constraint failed"),
        transaction(connection),
    ):
        connection.execute("INSERT INTO parents VALUES (1)")
        connection.execute("INSERT INTO children VALUES (2)")  # looked at when it commits
    with transaction(connection):
        connection.execute("INSERT INTO parents VALUES (3)")
    assert parents(connection) == [3]


def test_the_error_is_told_that_made_sqlite_roll_back_by_itself(connection):
    with (
        pytest.raises(sqlite3.IntegrityError, match="UNIQUE constraint failed"),
        transaction(connection),
    ):
        connection.execute("INSERT INTO parents VALUES (1)")
        connection.execute("INSERT OR ROLLBACK INTO parents VALUES (1)")
    assert (connection.in_transaction, parents(connection)) == (False, [])
