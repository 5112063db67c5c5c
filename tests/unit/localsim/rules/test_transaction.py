"""Transactions of the simulator's database, and those within others."""

import sqlite3

import pytest

from localsim.rules.db.database import transaction


@pytest.fixture
def connection():
    opened = sqlite3.connect(":memory:", isolation_level=None)
    opened.execute("CREATE TABLE numbers (number INTEGER)")
    yield opened
    opened.close()


def numbers(connection):
    return [row[0] for row in connection.execute("SELECT number FROM numbers")]


def test_a_transaction_within_another_is_a_part_of_it(connection):
    with pytest.raises(ZeroDivisionError), transaction(connection):
        with transaction(connection):
            connection.execute("INSERT INTO numbers VALUES (1)")
        assert connection.in_transaction
        raise ZeroDivisionError
    assert numbers(connection) == []


def test_a_transaction_is_committed_at_the_end_of_the_outermost_block(connection):
    with transaction(connection):
        with transaction(connection):
            connection.execute("INSERT INTO numbers VALUES (1)")
        connection.execute("INSERT INTO numbers VALUES (2)")
    assert not connection.in_transaction
    assert numbers(connection) == [1, 2]
