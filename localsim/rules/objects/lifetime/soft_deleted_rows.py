"""The rows of soft-deleted generations, with their bytes, until the clock says that they go.

Those of a bucket that is itself soft-deleted are kept under `NAME/GENERATION`, which no bucket is
called: meanwhile the name may belong to a new one.
"""

import secrets

from localsim.clock import Clock
from localsim.rules.objects.files.body_directory import BodyDirectory
from localsim.rules.objects.files.object_database import ObjectDatabase
from localsim.rules.objects.lifetime.soft_delete import soft_deleted_object
from localsim.rules.objects.storage_model import ObjectKey, StoredObject
from localsim.rules.objects.tables import (
    OBJECT_FIELDS,
    OBJECT_PLACEHOLDERS,
    object_of_row,
    row_of_object,
)

_CHOSEN = f"SELECT {OBJECT_FIELDS} FROM storage_soft_deleted"


class SoftDeletedRows:
    """Soft-deleted generations; changes belong within a change of the database."""

    def __init__(self, database: ObjectDatabase, bodies: BodyDirectory, clock: Clock) -> None:
        self._database = database
        self._bodies = bodies
        self._clock = clock

    def add(self, stored: StoredObject, kept_s: float, *, has_token: bool = False) -> None:
        """Keep a generation whose own row is gone, and its bytes, for so many seconds."""
        now_s = self._clock.now()
        token = secrets.token_urlsafe(24) if has_token else ""
        kept = soft_deleted_object(stored, now_s=now_s, until_s=now_s + kept_s, token=token)
        statement = f"INSERT INTO storage_soft_deleted VALUES ({OBJECT_PLACEHOLDERS}, ?, ?)"
        self._database.execute(statement, *row_of_object(kept), now_s, now_s + kept_s)

    def find(self, key: ObjectKey) -> StoredObject | None:
        """The soft-deleted generation that the key names, or None."""
        query = f"{_CHOSEN} WHERE bucket = ? AND name = ? AND generation = ? AND hard_delete_s > ?"
        values = key.bucket, key.name, key.generation, self._clock.now()
        row = self._database.execute(query, *values).fetchone()
        return None if row is None else object_of_row(row)

    def latest(
        self, bucket: str, after_name: str, after_s: float, before_s: float, limit: int
    ) -> list[StoredObject]:
        """The first names behind `after_name` that were deleted in between, each at its latest."""
        query = (
            f"{_CHOSEN} WHERE bucket = ? AND name > ? AND hard_delete_s > ?"
            " AND soft_delete_s > ? AND soft_delete_s < ?"
            " GROUP BY name HAVING generation = max(generation) ORDER BY name LIMIT ?"
        )
        values = bucket, after_name, self._clock.now(), after_s, before_s, limit
        return [object_of_row(row) for row in self._database.execute(query, *values)]

    def count(self, bucket: str) -> int:
        """How many generations of a bucket are kept."""
        query = "SELECT count(*) FROM storage_soft_deleted WHERE bucket = ? AND hard_delete_s > ?"
        ((count,),) = self._database.execute(query, bucket, self._clock.now()).fetchall()
        return int(count)

    def forget(self, stored: StoredObject) -> None:
        """Delete the row of a generation whose bytes belong to another one now."""
        chosen = "bucket = ? AND name = ? AND generation = ?"
        statement = f"DELETE FROM storage_soft_deleted WHERE {chosen}"
        self._database.execute(statement, stored.bucket, stored.name, stored.generation)

    def last_hard_delete_s(self, bucket: str) -> float | None:
        """When the last of a bucket's generations goes; None where none is kept."""
        query = "SELECT max(hard_delete_s) FROM storage_soft_deleted WHERE bucket = ?"
        ((last_s,),) = self._database.execute(query, bucket).fetchall()
        return None if last_s is None or last_s <= self._clock.now() else float(last_s)

    def rename_bucket(self, name: str, new_name: str) -> None:
        """Keep the generations of a bucket under another name."""
        statement = "UPDATE storage_soft_deleted SET bucket = ? WHERE bucket = ?"
        self._database.execute(statement, new_name, name)

    def next_due_s(self) -> float | None:
        """When the first generation goes for good."""
        query = "SELECT min(hard_delete_s) FROM storage_soft_deleted"
        ((first_s,),) = self._database.execute(query).fetchall()
        return None if first_s is None else float(first_s)

    def purge(self, limit: int) -> int:
        """Delete at most so many generations that are due, and their bytes; say how many."""
        query = f"{_CHOSEN} WHERE hard_delete_s <= ? ORDER BY hard_delete_s LIMIT ?"
        rows = self._database.execute(query, self._clock.now(), limit).fetchall()
        for stored in map(object_of_row, rows):
            self.forget(stored)
            self._bodies.drop(stored.generation, stored.body_files)
        return len(rows)
