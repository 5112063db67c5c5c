"""The SQLite tables of Cloud Storage, and the one sequence of generation numbers."""

import dataclasses
import json
import sqlite3
from typing import Any

from localsim.clock import Clock
from localsim.cloud.objects_model import Bucket, StoredObject

# A small body is a row of its own, keyed by its generation: appended, never moved by a patch.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS storage_generation (last INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS storage_buckets (
    name TEXT PRIMARY KEY,
    project TEXT NOT NULL,
    generation INTEGER NOT NULL,
    metageneration INTEGER NOT NULL,
    properties TEXT NOT NULL,
    created_s REAL NOT NULL,
    updated_s REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS storage_objects (
    bucket TEXT NOT NULL,
    name TEXT NOT NULL,
    generation INTEGER NOT NULL,
    metageneration INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    crc32c TEXT NOT NULL,
    md5 TEXT,
    properties TEXT NOT NULL,
    created_s REAL NOT NULL,
    updated_s REAL NOT NULL,
    body_file TEXT,
    PRIMARY KEY (bucket, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS storage_bodies (generation INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS storage_uploads (
    id TEXT PRIMARY KEY,
    new_object TEXT NOT NULL,
    received_bytes INTEGER NOT NULL,
    crc32c INTEGER NOT NULL,
    created_s REAL NOT NULL,
    result TEXT
) WITHOUT ROWID;
INSERT INTO storage_generation SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM storage_generation);
"""

TABLES = ("storage_objects", "storage_bodies", "storage_uploads", "storage_buckets")
"""Everything but the generations, which never come again."""

_BUCKET_COLUMNS = tuple(field.name for field in dataclasses.fields(Bucket))
_OBJECT_COLUMNS = tuple(field.name for field in dataclasses.fields(StoredObject))


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables where they are not there yet."""
    connection.executescript(_SCHEMA)


def next_generation(connection: sqlite3.Connection, clock: Clock) -> int:
    """Microseconds of the clock, but always above every generation given out before."""
    statement = "UPDATE storage_generation SET last = max(last + 1, ?) RETURNING last"
    ((generation,),) = connection.execute(statement, (int(clock.now() * 1e6),)).fetchall()
    return int(generation)


def bucket_of_row(row: tuple[Any, ...]) -> Bucket:
    """Read one row of `SELECT * FROM storage_buckets`."""
    values = dict(zip(_BUCKET_COLUMNS, row, strict=True))
    return Bucket(**values | {"properties": json.loads(values["properties"])})


def object_of_row(row: tuple[Any, ...]) -> StoredObject:
    """Read one row of `SELECT * FROM storage_objects`."""
    values = dict(zip(_OBJECT_COLUMNS, row, strict=True))
    return StoredObject(**values | {"properties": json.loads(values["properties"])})
