"""The buckets: created, found, listed and, when empty, deleted."""

import json
import re
import sqlite3

from localsim.clock import Clock
from localsim.cloud.database import transaction
from localsim.cloud.objects_model import (
    NO_PRECONDITIONS,
    Bucket,
    Preconditions,
    Properties,
    StorageError,
    invalid,
)
from localsim.cloud.objects_tables import bucket_of_row, next_generation

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_MAX_COMPONENT = 63


def check_bucket_name(name: str) -> None:
    """Refuse the names that Cloud Storage refuses."""
    too_long = any(len(component) > _MAX_COMPONENT for component in name.split("."))
    if not _NAME.fullmatch(name) or too_long or name.startswith("goog"):
        raise invalid(f"Invalid bucket name: '{name}'")


def _no_bucket() -> StorageError:
    return StorageError(404, "notFound", "The specified bucket does not exist.")


class Buckets:
    """Every bucket of every project: names are global, as on Google."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    def create(self, project: str, name: str, properties: Properties) -> Bucket:
        """Create a bucket; 409 when the name is taken."""
        check_bucket_name(name)
        with transaction(self._connection):
            if self._find(name) is not None:
                raise StorageError(
                    409,
                    "conflict",
                    "Your previous request to create the named bucket succeeded"
                    " and you already own it.",
                )
            generation = next_generation(self._connection, self._clock)
            now_s = self._clock.now()
            self._connection.execute(
                "INSERT INTO storage_buckets VALUES (?, ?, ?, ?, ?, ?, ?)",
                (name, project, generation, 1, json.dumps(dict(properties)), now_s, now_s),
            )
        return self.get(name)

    def get(
        self, name: str, preconditions: Preconditions = NO_PRECONDITIONS, *, reading: bool = False
    ) -> Bucket:
        """Find a bucket, or 404."""
        bucket = self._find(name)
        if bucket is None:
            raise _no_bucket()
        preconditions.check(bucket, reading=reading)
        return bucket

    def list(self, project: str, *, prefix: str, start: str, limit: int) -> list[Bucket]:
        """The first buckets of the project with the prefix, from the name `start` on."""
        rows = self._connection.execute(
            "SELECT * FROM storage_buckets WHERE project = ? AND name >= ?"
            " AND substr(name, 1, ?) = ? ORDER BY name LIMIT ?",
            (project, start, len(prefix), prefix, limit),
        )
        return [bucket_of_row(row) for row in rows]

    def delete(self, name: str, preconditions: Preconditions = NO_PRECONDITIONS) -> None:
        """Delete an empty bucket; 409 when it is not."""
        with transaction(self._connection):
            self.get(name, preconditions)
            if self._has_objects(name):
                message = "The bucket you tried to delete is not empty."
                raise StorageError(409, "conflict", message)
            self._connection.execute("DELETE FROM storage_buckets WHERE name = ?", (name,))

    def _find(self, name: str) -> Bucket | None:
        cursor = self._connection.execute("SELECT * FROM storage_buckets WHERE name = ?", (name,))
        row = cursor.fetchone()
        return None if row is None else bucket_of_row(row)

    def _has_objects(self, name: str) -> bool:
        cursor = self._connection.execute(
            "SELECT 1 FROM storage_objects WHERE bucket = ? LIMIT 1", (name,)
        )
        return cursor.fetchone() is not None
