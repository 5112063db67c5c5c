"""The long-running operations of a bucket: each is done, and kept, with what it did."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localsim.rules.objects.files.object_database import ObjectDatabase
from localsim.rules.objects.folders.folder_records import FolderRecord
from localsim.rules.objects.storage_model import StorageError

MOST_KEPT = 1000
"""Older ones of a bucket are forgotten."""


@dataclass(frozen=True, slots=True)
class BucketOperation:
    """What was done: `kind` is `rename-folder` or `delete-folder-recursive`."""

    bucket: str
    id: str
    kind: str
    source: str
    destination: str
    result: FolderRecord | None
    began_s: float
    ended_s: float


class BucketOperations:
    """The operations of all buckets, newest last."""

    def __init__(self, database: ObjectDatabase) -> None:
        self._database = database

    def add(
        self,
        kind: str,
        source: FolderRecord,
        result: FolderRecord | None,
        *,
        began_s: float,
        ended_s: float,
    ) -> BucketOperation:
        """Within a change: keep what has been done to a folder."""
        destination = "" if result is None else result.name
        bucket, operation_id = source.bucket, secrets.token_urlsafe(24)
        operation = BucketOperation(
            bucket, operation_id, kind, source.name, destination, result, began_s, ended_s
        )
        self._database.execute(
            "INSERT INTO storage_operations (bucket, id, record) VALUES (?, ?, ?)",
            *(bucket, operation_id, json.dumps(_record(operation))),
        )
        self._database.execute(
            "DELETE FROM storage_operations WHERE number IN (SELECT number FROM storage_operations"
            " WHERE bucket = ? ORDER BY number DESC LIMIT -1 OFFSET ?)",
            *(bucket, MOST_KEPT),
        )
        return operation

    def get(self, bucket: str, operation_id: str) -> BucketOperation:
        """The operation; raises 404."""
        query = "SELECT record FROM storage_operations WHERE bucket = ? AND id = ?"
        row = self._database.execute(query, bucket, operation_id).fetchone()
        if row is None:
            raise StorageError(404, "notFound", "The specified operation was not found.")
        return _operation(bucket, json.loads(row[0]))

    def list(self, bucket: str, *, after: int, limit: int) -> tuple[list[BucketOperation], int]:
        """A page from behind the number `after` on, and the number it ends with; 0: no more."""
        query = (
            "SELECT number, record FROM storage_operations WHERE bucket = ? AND number > ?"
            " ORDER BY number LIMIT ?"
        )
        rows = self._database.execute(query, bucket, after, limit + 1).fetchall()
        operations = [_operation(bucket, json.loads(record)) for _, record in rows[:limit]]
        return operations, rows[limit - 1][0] if len(rows) > limit else 0


def _record(operation: BucketOperation) -> Mapping[str, Any]:
    result = operation.result
    return {
        "id": operation.id,
        "kind": operation.kind,
        "source": operation.source,
        "destination": operation.destination,
        "began_s": operation.began_s,
        "ended_s": operation.ended_s,
        "result": None
        if result is None
        else [result.metageneration, result.created_s, result.updated_s],
    }


def _operation(bucket: str, record: Mapping[str, Any]) -> BucketOperation:
    given, destination = record["result"], record["destination"]
    result = None if given is None else FolderRecord(bucket, destination, *given)
    return BucketOperation(**{**record, "bucket": bucket, "result": result})
