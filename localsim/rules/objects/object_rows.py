"""The rows and bytes of object generations: written, archived, deleted."""

import dataclasses

from localsim.clock import Clock
from localsim.rules.objects.files.body_directory import BodyDirectory
from localsim.rules.objects.files.incoming_body import ObjectBody
from localsim.rules.objects.files.object_database import ObjectDatabase
from localsim.rules.objects.lifetime.soft_delete import soft_retention_s
from localsim.rules.objects.lifetime.soft_deleted_rows import SoftDeletedRows
from localsim.rules.objects.properties import without_nulls
from localsim.rules.objects.storage_model import Bucket, NewObject, ObjectKey, StoredObject
from localsim.rules.objects.tables import (
    OBJECT_PLACEHOLDERS,
    TABLES_WITH_FILES,
    next_generation,
    object_of_row,
    row_of_object,
)


class ObjectRows:
    """The generations of objects; changes belong within a change of the database."""

    def __init__(self, database: ObjectDatabase, bodies: BodyDirectory, clock: Clock) -> None:
        self._database = database
        self._bodies = bodies
        self._clock = clock
        self.soft_deleted = SoftDeletedRows(database, bodies, clock)

    def live(self, bucket: str, name: str) -> StoredObject | None:
        """The live generation of an object, or None."""
        query = "SELECT * FROM storage_objects WHERE bucket = ? AND name = ?"
        row = self._database.execute(query, bucket, name).fetchone()
        return None if row is None else object_of_row(row)

    def find(self, key: ObjectKey) -> StoredObject | None:
        """The live generation, or exactly the one that the key names, or None."""
        live = self.live(key.bucket, key.name)
        if key.generation is None or (live is not None and live.generation == key.generation):
            return live
        query = "SELECT * FROM storage_noncurrent WHERE bucket = ? AND name = ? AND generation = ?"
        row = self._database.execute(query, key.bucket, key.name, key.generation).fetchone()
        return None if row is None else object_of_row(row)

    def body(self, stored: StoredObject) -> ObjectBody:
        """The bytes of a generation, as something to publish or join again."""
        data = None if stored.body_files else self.data(stored)
        return ObjectBody(stored.size_bytes, stored.crc32c, stored.md5, data, stored.body_files)

    def data(self, stored: StoredObject) -> bytes:
        """The bytes of a generation that are in the database; raises FileNotFoundError."""
        query = "SELECT data FROM storage_bodies WHERE generation = ?"
        row = self._database.execute(query, stored.generation).fetchone()
        if row is None:
            raise FileNotFoundError
        return bytes(row[0])

    def insert(self, new: NewObject, body: ObjectBody, component_count: int | None) -> StoredObject:
        """Add a live generation where there is none."""
        now_s = self._clock.now()
        stored = StoredObject(
            bucket=new.bucket,
            name=new.name,
            generation=next_generation(self._database.connection, self._clock),
            metageneration=1,
            size_bytes=body.size_bytes,
            crc32c=body.crc32c,
            md5=body.md5,
            properties=without_nulls(new.properties),
            created_s=now_s,
            updated_s=now_s,
            body_files=body.files,
            component_count=component_count,
        )
        self.write(stored)
        if not body.files:
            statement = "INSERT INTO storage_bodies VALUES (?, ?)"
            self._database.execute(statement, stored.generation, body.data or b"")
        return stored

    def archive(self, live: StoredObject) -> None:
        """Make a live generation noncurrent."""
        self._delete_row(live)
        self.write(dataclasses.replace(live, deleted_s=self._clock.now()))

    def delete(self, bucket: Bucket, stored: StoredObject) -> None:
        """End a generation: soft-deleted by its bucket's policy, or gone with its bytes."""
        kept_s = soft_retention_s(bucket.properties)
        if not kept_s:
            self.drop(stored)
            return
        self._delete_row(stored)
        is_tree = (bucket.properties.get("hierarchicalNamespace") or {}).get("enabled") is True
        self.soft_deleted.add(stored, kept_s, has_token=is_tree)

    def drop(self, stored: StoredObject) -> None:
        """Remove a generation, live or noncurrent, and its bytes."""
        self._delete_row(stored)
        self._bodies.drop(stored.generation, stored.body_files)

    def count(self) -> int:
        """How many live objects there are in all buckets."""
        ((count,),) = self._database.execute("SELECT count(*) FROM storage_objects").fetchall()
        return int(count)

    def files(self) -> set[str]:
        """The file names of all bodies."""
        return {
            file
            for table in TABLES_WITH_FILES
            for (file,) in self._database.execute(
                f"SELECT value FROM {table}, json_each(body_files) WHERE body_files != '[]'"
            )
        }

    def write(self, stored: StoredObject) -> None:
        """Write the row of a generation, live or noncurrent; its bytes stay as they are."""
        statement = f"INSERT OR REPLACE INTO {_table(stored)} VALUES ({OBJECT_PLACEHOLDERS})"
        self._database.execute(statement, *row_of_object(stored))

    def _delete_row(self, stored: StoredObject) -> None:
        statement = f"DELETE FROM {_table(stored)} WHERE bucket = ? AND name = ? AND generation = ?"
        self._database.execute(statement, stored.bucket, stored.name, stored.generation)


def _table(stored: StoredObject) -> str:
    return "storage_objects" if stored.deleted_s is None else "storage_noncurrent"
