"""Cloud Storage's rules for objects: what is there, what may change it, and what is refused.

A body is durable before one transaction checks the preconditions and publishes it, so a reader sees
the old object or the new one, and a killed server forgets nothing that it acknowledged. Everything
here runs on one thread, except `bodies.seal` and `IncomingBody.sync`, which block on the disk.
"""

import dataclasses
import io
import json
import sqlite3
from pathlib import Path
from typing import BinaryIO

from localsim.clock import Clock
from localsim.cloud.database import transaction
from localsim.cloud.objects_bodies import Body, BodyDirectory
from localsim.cloud.objects_buckets import Buckets
from localsim.cloud.objects_listing import Listing, ListQuery, list_page
from localsim.cloud.objects_model import (
    NO_PRECONDITIONS,
    NewObject,
    Preconditions,
    Properties,
    StorageError,
    StoredObject,
    check_object_name,
    merged,
    without_cleared,
)
from localsim.cloud.objects_tables import TABLES, create_tables, next_generation, object_of_row
from localsim.cloud.objects_uploads import UploadSessions

_FIXED_AFTER_WRITE = ("storageClass",)


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectKey:
    """Which object is meant; a generation selects that one or nothing."""

    bucket: str
    name: str
    generation: int | None = None


class ObjectStore:
    """The objects of a simulated cloud, kept in its database and in a directory."""

    def __init__(self, connection: sqlite3.Connection, directory: Path, clock: Clock) -> None:
        """Open the store and sweep what a killed predecessor had not acknowledged."""
        create_tables(connection)
        self._connection = connection
        self._clock = clock
        self.bodies = BodyDirectory(directory)
        self.buckets = Buckets(connection, clock)
        self.uploads = UploadSessions(connection, self.bodies, clock)
        self.bodies.sweep(kept=self._body_files(), unfinished=self.uploads.drop_expired())

    def get(
        self,
        key: ObjectKey,
        preconditions: Preconditions = NO_PRECONDITIONS,
        *,
        reading: bool = False,
    ) -> StoredObject:
        """Find an object, or 404."""
        self.buckets.get(key.bucket)
        found = self._find(key.bucket, key.name)
        if found is None or key.generation not in (None, found.generation):
            raise StorageError(404, "notFound", f"No such object: {key.bucket}/{key.name}")
        preconditions.check(found, reading=reading)
        return found

    def open_body(self, stored: StoredObject) -> BinaryIO:
        """Open the object's bytes; they can be read on after it is replaced or deleted."""
        if stored.body_file is not None:
            return self.bodies.open(stored.body_file)
        ((data,),) = self._connection.execute(
            "SELECT data FROM storage_bodies WHERE generation = ?", (stored.generation,)
        ).fetchall()
        return io.BytesIO(data)

    def list(self, bucket: str, query: ListQuery) -> Listing:
        """One page of the bucket's objects in name order."""
        self.buckets.get(bucket)
        return list_page(self._connection, bucket, query)

    def publish(self, new: NewObject, body: Body, *, upload_id: str | None = None) -> StoredObject:
        """Make the sealed body the live object, if the preconditions hold at this moment."""
        check_object_name(new.name)
        try:
            with transaction(self._connection):
                self.buckets.get(new.bucket)
                replaced = self._find(new.bucket, new.name)
                new.preconditions.check(replaced)
                self.bodies.require(body)
                stored = self._insert(new, body)
                self._forget_data(replaced)
                if upload_id is not None:
                    self.uploads.finish(upload_id, stored)
        except BaseException:
            self.bodies.remove(body.file)
            raise
        self._forget_file(replaced)
        return stored

    def patch(
        self, key: ObjectKey, change: Properties, preconditions: Preconditions = NO_PRECONDITIONS
    ) -> StoredObject:
        """Change the given fields of the metadata."""
        return self._rewrite(key, change, preconditions, keep=True)

    def update(
        self, key: ObjectKey, properties: Properties, preconditions: Preconditions
    ) -> StoredObject:
        """Replace the metadata as a whole."""
        return self._rewrite(key, properties, preconditions, keep=False)

    def delete(self, key: ObjectKey, preconditions: Preconditions = NO_PRECONDITIONS) -> None:
        """Delete the live object."""
        with transaction(self._connection):
            found = self.get(key, preconditions)
            self._connection.execute(
                "DELETE FROM storage_objects WHERE bucket = ? AND name = ?", (key.bucket, key.name)
            )
            self._forget_data(found)
        self._forget_file(found)

    def count(self) -> int:
        """How many live objects there are in all buckets."""
        ((number,),) = self._connection.execute("SELECT count(*) FROM storage_objects").fetchall()
        return int(number)

    def clear(self) -> None:
        """Delete every object, upload and bucket at once."""
        with transaction(self._connection):
            for table in TABLES:
                self._connection.execute(f"DELETE FROM {table}")
        self.bodies.sweep(kept=frozenset(), unfinished=frozenset())

    def _rewrite(
        self, key: ObjectKey, change: Properties, preconditions: Preconditions, *, keep: bool
    ) -> StoredObject:
        with transaction(self._connection):
            found = self.get(key, preconditions)
            fixed = {name: found.properties.get(name) for name in _FIXED_AFTER_WRITE}
            base = found.properties if keep else {}
            changed = dataclasses.replace(
                found,
                properties=merged(base, {**change, **fixed}),
                metageneration=found.metageneration + 1,
                updated_s=self._clock.now(),
            )
            self._write(changed)
        return changed

    def _insert(self, new: NewObject, body: Body) -> StoredObject:
        generation = next_generation(self._connection, self._clock)
        now_s = self._clock.now()
        stored = StoredObject(
            bucket=new.bucket,
            name=new.name,
            generation=generation,
            metageneration=1,
            size_bytes=body.size_bytes,
            crc32c=body.crc32c,
            md5=body.md5,
            properties=without_cleared(new.properties),
            created_s=now_s,
            updated_s=now_s,
            body_file=body.file,
        )
        self._write(stored)
        if body.file is None:
            self._connection.execute(
                "INSERT INTO storage_bodies VALUES (?, ?)", (generation, body.data)
            )
        return stored

    def _write(self, stored: StoredObject) -> None:
        row = {
            column.name: getattr(stored, column.name) for column in dataclasses.fields(stored)
        } | {"properties": json.dumps(dict(stored.properties))}
        marks = ", ".join("?" * len(row))
        self._connection.execute(
            f"INSERT OR REPLACE INTO storage_objects VALUES ({marks})", tuple(row.values())
        )

    def _find(self, bucket: str, name: str) -> StoredObject | None:
        row = self._connection.execute(
            "SELECT * FROM storage_objects WHERE bucket = ? AND name = ?", (bucket, name)
        ).fetchone()
        return None if row is None else object_of_row(row)

    def _forget_data(self, gone: StoredObject | None) -> None:
        if gone is not None and gone.body_file is None:
            self._connection.execute(
                "DELETE FROM storage_bodies WHERE generation = ?", (gone.generation,)
            )

    def _forget_file(self, gone: StoredObject | None) -> None:
        if gone is not None:
            self.bodies.remove(gone.body_file)

    def _body_files(self) -> set[str]:
        rows = self._connection.execute(
            "SELECT body_file FROM storage_objects WHERE body_file IS NOT NULL"
        )
        return {file for (file,) in rows}
