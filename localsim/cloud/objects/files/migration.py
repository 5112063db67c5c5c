"""Objects of a state whose one SQLite file held them too: moved to the file of their own, once."""

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

from localsim.cloud.db.database import transaction

_TABLES = (
    "storage_generation",
    "storage_buckets",
    "storage_objects",
    "storage_bodies",
    "storage_uploads",
)


def holds_objects(earlier: sqlite3.Connection) -> bool:
    """Whether the objects are, or were until the last crash, in the cloud's own file."""
    found = earlier.execute("SELECT 1 FROM sqlite_master WHERE name = 'storage_objects'")
    return found.fetchone() is not None


def copy_rows(earlier: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Fill the empty tables of `target`, within a transaction of it."""
    if not holds_objects(earlier):
        return
    target.execute("DELETE FROM storage_generation")
    for table in _TABLES:
        rows = earlier.execute(f"SELECT * FROM {table}")
        marks = ", ".join("?" * len(rows.description))
        if table == "storage_objects":
            marks += ", NULL, NULL"
        target.executemany(f"INSERT INTO {table} VALUES ({marks})", _converted(table, rows))


def drop_rows(earlier: sqlite3.Connection) -> None:
    """Forget in `earlier` what has been copied durably."""
    if holds_objects(earlier):
        with transaction(earlier):
            for table in _TABLES:
                earlier.execute(f"DROP TABLE {table}")


def _converted(table: str, rows: sqlite3.Cursor) -> Iterator[tuple[Any, ...]]:
    for row in rows:
        if table == "storage_objects":
            yield (*row[:-1], json.dumps(_files(row[-1])))
        elif table == "storage_uploads" and row[-1] is not None:
            yield (*row[:-1], json.dumps(_result(json.loads(row[-1]))))
        else:
            yield row


def _result(fields: dict[str, Any]) -> dict[str, Any]:
    file = fields.pop("body_file")
    return {**fields, "body_files": _files(file)}


def _files(file: str | None) -> list[str]:
    return [] if file is None else [file]
