"""The long-running operations of buckets: here each is done when its request is answered."""

import dataclasses
import json
import secrets
from collections.abc import Mapping
from typing import Any

from localsim.clock import Clock
from localsim.rules.objects.files.object_database import ObjectDatabase
from localsim.rules.objects.storage_model import StorageError

KEPT_S = 30 * 86400
"""So long operations can be looked at."""


@dataclasses.dataclass(frozen=True, slots=True)
class StorageOperation:
    """A finished operation; `metadata` is what it was asked for and how it went."""

    bucket: str
    id: str
    metadata: Mapping[str, Any]
    created_s: float


class StorageOperations:
    """The operations of all buckets, in rows that survive a restart."""

    def __init__(self, database: ObjectDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def add(self, bucket: str, metadata: Mapping[str, Any]) -> StorageOperation:
        """Note an operation that is done."""
        now_s = self._clock.now()
        made = StorageOperation(bucket, secrets.token_urlsafe(24), metadata, now_s)
        with self._database.change():
            statement = "DELETE FROM storage_bulk_restores WHERE created_s < ?"
            self._database.execute(statement, now_s - KEPT_S)
            row = bucket, made.id, json.dumps(metadata), now_s
            self._database.execute("INSERT INTO storage_bulk_restores VALUES (?, ?, ?, ?)", *row)
        return made

    def get(self, bucket: str, operation_id: str) -> StorageOperation:
        """The operation of that id; raises 404."""
        query = "SELECT * FROM storage_bulk_restores WHERE bucket = ? AND id = ?"
        row = self._database.execute(query, bucket, operation_id).fetchone()
        if row is None:
            raise StorageError(404, "notFound", "The specified operation does not exist.")
        return _operation(row)

    def list(self, bucket: str, *, start: str, limit: int) -> list[StorageOperation]:
        """The first `limit` operations of a bucket, from the id `start` on."""
        query = (
            "SELECT * FROM storage_bulk_restores WHERE bucket = ? AND id >= ? ORDER BY id LIMIT ?"
        )
        return [_operation(row) for row in self._database.execute(query, bucket, start, limit)]

    def drop_all(self, bucket: str) -> None:
        """Within a change: delete the operations of a bucket that is deleted."""
        self._database.execute("DELETE FROM storage_bulk_restores WHERE bucket = ?", bucket)


def _operation(row: tuple[Any, ...]) -> StorageOperation:
    bucket, operation_id, metadata, created_s = row
    return StorageOperation(bucket, operation_id, json.loads(metadata), created_s)
