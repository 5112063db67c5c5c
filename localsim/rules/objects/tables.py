"""The SQLite tables of Cloud Storage, and the one sequence of generation numbers."""

import dataclasses
import json
import sqlite3
from functools import lru_cache
from operator import attrgetter
from typing import Any

from localsim.clock import Clock
from localsim.rules.objects.storage_model import Bucket, StoredObject

SCHEMA_VERSION = 1

_GENERATION = """
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
    body_files TEXT NOT NULL,
    component_count INTEGER,
    deleted_s REAL,
"""
"""The fields of StoredObject; the properties and the names of the files are JSON."""

# A small body is a row of its own, keyed by its generation: appended, never moved by a patch.
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS storage_generation (last INTEGER NOT NULL)",
    "INSERT INTO storage_generation SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM storage_generation)",
    """CREATE TABLE IF NOT EXISTS storage_buckets (
    name TEXT PRIMARY KEY,
    project TEXT NOT NULL,
    generation INTEGER NOT NULL,
    metageneration INTEGER NOT NULL,
    properties TEXT NOT NULL,
    created_s REAL NOT NULL,
    updated_s REAL NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS storage_policies (
    bucket TEXT PRIMARY KEY,
    bindings TEXT NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS storage_hmac_keys (
    access_id TEXT PRIMARY KEY,
    project TEXT NOT NULL,
    email TEXT NOT NULL,
    state TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_s REAL NOT NULL,
    updated_s REAL NOT NULL,
    secret TEXT NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS storage_notifications (
    bucket TEXT NOT NULL,
    id INTEGER NOT NULL,
    settings TEXT,
    PRIMARY KEY (bucket, id)
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS storage_rewrites (
    id TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    created_s REAL NOT NULL
    ) WITHOUT ROWID""",
    f"CREATE TABLE IF NOT EXISTS storage_objects ({_GENERATION}"
    " PRIMARY KEY (bucket, name)) WITHOUT ROWID",
    f"CREATE TABLE IF NOT EXISTS storage_noncurrent ({_GENERATION}"
    " PRIMARY KEY (bucket, name, generation)) WITHOUT ROWID",
    """CREATE TABLE IF NOT EXISTS storage_bodies (
    generation INTEGER PRIMARY KEY,
    data BLOB NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS storage_uploads (
    id TEXT PRIMARY KEY,
    new_object TEXT NOT NULL,
    received_bytes INTEGER NOT NULL,
    crc32c INTEGER NOT NULL,
    created_s REAL NOT NULL,
    result TEXT
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS storage_uploads_by_age ON storage_uploads (created_s)",
    """CREATE TABLE IF NOT EXISTS storage_multiparts (
    id TEXT PRIMARY KEY,
    bucket TEXT NOT NULL,
    name TEXT NOT NULL,
    new_object TEXT NOT NULL,
    created_s REAL NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS storage_parts (
    upload_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    crc32c TEXT NOT NULL,
    md5 TEXT,
    data BLOB,
    body_files TEXT NOT NULL,
    updated_s REAL NOT NULL,
    PRIMARY KEY (upload_id, number)
    )""",
)

TABLES = (
    "storage_objects",
    "storage_noncurrent",
    "storage_bodies",
    "storage_uploads",
    "storage_multiparts",
    "storage_parts",
    "storage_policies",
    "storage_hmac_keys",
    "storage_notifications",
    "storage_rewrites",
    "storage_buckets",
)
"""Everything but the generations, which never come again."""

TABLES_WITH_FILES = ("storage_objects", "storage_noncurrent", "storage_parts")
"""Those with a column `body_files`."""

_BUCKET_COLUMNS = tuple(field.name for field in dataclasses.fields(Bucket))
_decode = json.JSONDecoder().raw_decode
_encode = json.JSONEncoder().encode
_OBJECT_COLUMNS = tuple(field.name for field in dataclasses.fields(StoredObject))
_PROPERTIES, _FILES = map(_OBJECT_COLUMNS.index, ("properties", "body_files"))
_values = attrgetter(*_OBJECT_COLUMNS)
OBJECT_PLACEHOLDERS = ", ".join("?" * len(_OBJECT_COLUMNS))


def next_generation(connection: sqlite3.Connection, clock: Clock) -> int:
    """Microseconds of the clock, but always above every generation given out before."""
    statement = "UPDATE storage_generation SET last = max(last + 1, ?) RETURNING last"
    ((generation,),) = connection.execute(statement, (int(clock.now() * 1e6),)).fetchall()
    return int(generation)


@lru_cache(64)  # every call looks at its bucket, which hardly ever changes
def bucket_of_row(row: tuple[Any, ...]) -> Bucket:
    """Read one row of `SELECT * FROM storage_buckets`."""
    values = dict(zip(_BUCKET_COLUMNS, row, strict=True))
    return Bucket(**values | {"properties": json.loads(values["properties"])})


def object_of_row(row: tuple[Any, ...]) -> StoredObject:
    """Read one row of `SELECT * FROM storage_objects`, or of `storage_noncurrent`."""
    # By place, with the bare decoder: a page of a listing is a thousand of these.
    values = list(row)
    values[_PROPERTIES] = _decode(row[_PROPERTIES])[0]
    values[_FILES] = tuple(_decode(row[_FILES])[0])
    return StoredObject(*values)


def row_of_object(stored: StoredObject) -> tuple[Any, ...]:
    """The columns that `object_of_row` reads."""
    row = list(_values(stored))
    row[_PROPERTIES] = _encode(dict(stored.properties))
    row[_FILES] = _encode(stored.body_files)
    return tuple(row)
