"""The SQLite file of a simulated cloud; a commit is on disk when it returns."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SCHEMA_VERSION = 3
"""1 and 2 are read as well: 1 lacks what has defaults, 2 has the objects in the same file."""
PAGE_BYTES = 4096
CHECKPOINT_PAGES = 4000
"""When the log is written back into the file: rarely, since that costs as much as many calls."""


class NewerSchemaError(Exception):
    """The file was written by a newer localsim."""


def open_database(path: Path) -> sqlite3.Connection:
    """Open or create the file; raises NewerSchemaError, sqlite3.Error or OSError."""
    connection = connect(path, SCHEMA_VERSION)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return connection


def connect(
    path: Path, newest: int, *, page_bytes: int = PAGE_BYTES, check_same_thread: bool = True
) -> sqlite3.Connection:
    """Open or create a file whose schema is not above `newest`.

    Raises NewerSchemaError, sqlite3.Error or OSError.
    """
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=check_same_thread)
    try:
        connection.execute(f"PRAGMA page_size = {page_bytes}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > newest:
            raise NewerSchemaError(f"{path} has schema {version}, this localsim knows {newest}")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block as one transaction, durable when the block ends; an error rolls it back.

    A block within a block is a part of the outer one.
    """
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite itself rolls back after some errors
            connection.execute("ROLLBACK")
        raise
