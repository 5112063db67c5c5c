"""The one SQLite file of a simulated cloud: what is acknowledged is on disk before the reply."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SCHEMA_VERSION = 2
"""1 is read as well: what it lacks has defaults."""
CHECKPOINT_PAGES = 4000
"""When the log is written back into the file: at 16 MiB, since that costs as much as many calls."""


class NewerSchemaError(Exception):
    """The file was written by a newer localsim."""


def open_database(path: Path) -> sqlite3.Connection:
    """Open or create the file; raises NewerSchemaError, sqlite3.Error or OSError."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        connection.close()
        raise NewerSchemaError(f"{path} has schema {version}, this localsim knows {SCHEMA_VERSION}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of the block or nothing; durable when the block ends."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite itself rolls back after some errors
            connection.execute("ROLLBACK")
        raise
