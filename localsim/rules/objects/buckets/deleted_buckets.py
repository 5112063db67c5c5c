"""Soft-deleted buckets: kept with their policy and soft-deleted objects until they are due.

cloud.google.com/storage/docs/use-soft-deleted-buckets: a bucket goes no sooner than the last of its
objects, and meanwhile its name is free.
"""

from localsim.clock import Clock
from localsim.rules.objects.files.object_database import ObjectDatabase
from localsim.rules.objects.lifetime.soft_delete import (
    restored_properties,
    soft_deleted_bucket,
    soft_retention_s,
)
from localsim.rules.objects.lifetime.soft_deleted_rows import SoftDeletedRows
from localsim.rules.objects.storage_model import Bucket, StorageError
from localsim.rules.objects.tables import BUCKET_COLUMNS, bucket_of_row, row_of_bucket

_CHOSEN = f"SELECT {BUCKET_COLUMNS} FROM storage_deleted_buckets"


class DeletedBuckets:
    """Soft-deleted buckets; changes belong within a change of the database."""

    def __init__(self, database: ObjectDatabase, clock: Clock, objects: SoftDeletedRows) -> None:
        """`objects` are soft-deleted ones, which go with their bucket."""
        self._database = database
        self._clock = clock
        self._objects = objects

    def keep(self, bucket: Bucket) -> None:
        """Keep a bucket whose own row is gone, if its policy or one of its objects asks for it."""
        now_s, kept_s = self._clock.now(), soft_retention_s(bucket.properties)
        of_objects_s = self._objects.last_hard_delete_s(bucket.name)
        until_s = max(now_s + kept_s, of_objects_s or now_s)
        if until_s <= now_s:
            self._delete_policy(bucket.name)
            return
        kept = soft_deleted_bucket(bucket, now_s=now_s, until_s=until_s)
        statement = "INSERT INTO storage_deleted_buckets VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        self._database.execute(statement, *row_of_bucket(kept), until_s)
        self._rename(bucket.name, _hidden_name(bucket))

    def get(self, name: str, generation: int) -> Bucket:
        """The soft-deleted bucket; raises 404."""
        query = f"{_CHOSEN} WHERE name = ? AND generation = ? AND hard_delete_s > ?"
        row = self._database.execute(query, name, generation, self._clock.now()).fetchone()
        if row is None:
            raise StorageError(404, "notFound", "The specified bucket does not exist.")
        return bucket_of_row(row)

    def list(
        self, project: str, *, prefix: str, start: tuple[str, int], limit: int
    ) -> list[Bucket]:
        """The first buckets of a project with the prefix, from a name and generation on."""
        rows = self._database.execute(
            f"{_CHOSEN} WHERE project = ? AND (name, generation) >= (?, ?)"
            " AND substr(name, 1, ?) = ? AND hard_delete_s > ? ORDER BY name, generation LIMIT ?",
            *(project, *start, len(prefix), prefix, self._clock.now(), limit),
        )
        return [bucket_of_row(row) for row in rows]

    def take(self, name: str, generation: int) -> Bucket:
        """Forget a bucket that is live again, with what is kept of it; raises 404."""
        bucket = self.get(name, generation)
        self._delete(bucket)
        self._rename(_hidden_name(bucket), name)
        live: dict[str, object] = restored_properties(bucket.properties)
        return Bucket(
            bucket.name,
            bucket.project,
            bucket.generation,
            bucket.metageneration,
            live,
            bucket.created_s,
            self._clock.now(),
        )

    def next_due_s(self) -> float | None:
        """When the first bucket goes for good."""
        query = "SELECT min(hard_delete_s) FROM storage_deleted_buckets"
        ((first_s,),) = self._database.execute(query).fetchall()
        return None if first_s is None else float(first_s)

    def purge(self) -> None:
        """Delete the buckets that are due."""
        query = f"{_CHOSEN} WHERE hard_delete_s <= ?"
        for row in self._database.execute(query, self._clock.now()).fetchall():
            bucket = bucket_of_row(row)
            self._delete(bucket)
            self._delete_policy(_hidden_name(bucket))

    def _delete(self, bucket: Bucket) -> None:
        statement = "DELETE FROM storage_deleted_buckets WHERE name = ? AND generation = ?"
        self._database.execute(statement, bucket.name, bucket.generation)

    def _delete_policy(self, name: str) -> None:
        self._database.execute("DELETE FROM storage_policies WHERE bucket = ?", name)

    def _rename(self, name: str, new_name: str) -> None:
        statement = "UPDATE storage_policies SET bucket = ? WHERE bucket = ?"
        self._database.execute(statement, new_name, name)
        self._objects.rename_bucket(name, new_name)


def _hidden_name(bucket: Bucket) -> str:
    """What is kept of a soft-deleted bucket is kept under a name that no bucket has."""
    return f"{bucket.name}/{bucket.generation}"
