"""The long-running operations of buckets: here each is done when its request is answered."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localsim.rules.objects.files.object_database import ObjectDatabase
from localsim.rules.objects.storage_model import StorageError

BULK_RESTORE = "bulk-restore-objects"
MOST_KEPT = 1000
"""Older ones of a bucket are forgotten."""


@dataclass(frozen=True, slots=True)
class BucketOperation:
    """What was done; `details` hold what was asked for and how it went, in the words of `kind`."""

    bucket: str
    id: str
    kind: str
    details: Mapping[str, Any]
    began_s: float
    ended_s: float


class BucketOperations:
    """The operations of all buckets, newest last, in rows that survive a restart."""

    def __init__(self, database: ObjectDatabase) -> None:
        self._database = database

    def add(
        self,
        bucket: str,
        kind: str,
        details: Mapping[str, Any],
        *,
        began_s: float,
        ended_s: float,
    ) -> BucketOperation:
        """Note an operation that is done."""
        operation_id = secrets.token_urlsafe(24)
        record = json.dumps([kind, details, began_s, ended_s])
        with self._database.change():
            self._database.execute(
                "INSERT INTO storage_operations (bucket, id, record) VALUES (?, ?, ?)",
                *(bucket, operation_id, record),
            )
            self._database.execute(
                "DELETE FROM storage_operations WHERE number IN (SELECT number"
                " FROM storage_operations WHERE bucket = ? ORDER BY number DESC LIMIT -1 OFFSET ?)",
                *(bucket, MOST_KEPT),
            )
        return BucketOperation(bucket, operation_id, kind, details, began_s, ended_s)

    def get(self, bucket: str, operation_id: str) -> BucketOperation:
        """The operation; raises 404."""
        query = "SELECT record FROM storage_operations WHERE bucket = ? AND id = ?"
        row = self._database.execute(query, bucket, operation_id).fetchone()
        if row is None:
            raise StorageError(404, "notFound", "The specified operation was not found.")
        return BucketOperation(bucket, operation_id, *json.loads(row[0]))

    def list(self, bucket: str, *, after: int, limit: int) -> tuple[list[BucketOperation], int]:
        """A page from behind the number `after` on, and the number it ends with; 0: no more."""
        query = (
            "SELECT number, id, record FROM storage_operations WHERE bucket = ? AND number > ?"
            " ORDER BY number LIMIT ?"
        )
        rows = self._database.execute(query, bucket, after, limit + 1).fetchall()
        operations = [
            BucketOperation(bucket, operation_id, *json.loads(record))
            for _, operation_id, record in rows[:limit]
        ]
        return operations, rows[limit - 1][0] if len(rows) > limit else 0

    def drop_all(self, bucket: str) -> None:
        """Within a change: delete the operations of a bucket that is deleted."""
        self._database.execute("DELETE FROM storage_operations WHERE bucket = ?", bucket)
