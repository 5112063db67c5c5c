"""Objects that are appended to: of zonal buckets, visible from their first byte on.

cloud.google.com/storage/docs/rapid/appendable-objects: such an object is open until it is
finalized; what is flushed can be read at once, and a new writer takes the place of an earlier one.
"""

import dataclasses

from localsim.clock import Clock
from localsim.rules.objects.bucket_settings.namespaces import is_zonal
from localsim.rules.objects.encryption.encryption_settings import default_key
from localsim.rules.objects.files.body_directory import INLINE_BYTES, ObjectBody, crc32c_of
from localsim.rules.objects.object_copies import ObjectChanges
from localsim.rules.objects.properties import FINALIZED_S, OPEN
from localsim.rules.objects.storage_model import (
    NO_PRECONDITIONS,
    NewObject,
    ObjectKey,
    Preconditions,
    StorageError,
    StoredObject,
    encode_crc32c,
    invalid,
    not_implemented,
    precondition_failed,
)


class ObjectAppends:
    """Begins, extends and finalizes the objects that are open."""

    def __init__(self, objects: ObjectChanges, clock: Clock) -> None:
        self._objects = objects
        self._clock = clock

    def begin(self, new: NewObject) -> StoredObject:
        """Make an empty open object the live one, by the rules for any new object."""
        objects = self._objects
        with objects.database.change():
            bucket = objects.buckets.get(new.bucket)
            if not is_zonal(bucket.properties):
                raise precondition_failed("This bucket does not support appendable objects.")
            if default_key(bucket):
                raise not_implemented("An appendable object under a default key of Cloud KMS")
            empty = ObjectBody(0, encode_crc32c(0), None, b"")
            placed = objects.place(new, empty)
            opened = dataclasses.replace(placed, properties={**placed.properties, OPEN: True})
            objects.rows.write(opened)
        return opened

    def find(self, key: ObjectKey, preconditions: Preconditions = NO_PRECONDITIONS) -> StoredObject:
        """The live object of exactly that generation, which is open; raises StorageError."""
        found = self._objects.find(ObjectKey(key.bucket, key.name), preconditions)
        if found.generation != key.generation:
            message = f"No such object: {key.bucket}/{key.name}#{key.generation}"
            raise StorageError(404, "notFound", message)
        if not found.properties.get(OPEN):
            raise precondition_failed("The object is finalized: nothing can be appended to it.")
        return found

    def extend(self, key: ObjectKey, body: ObjectBody) -> StoredObject:
        """Add sealed bytes to an open object, which stays open; nothing of it is written again."""
        objects = self._objects
        with objects.database.change():
            objects.bodies.keep(body)
            stored = self.find(key)
            if not body.size_bytes:
                return stored
            before = objects.rows.body(stored)
            whole = dataclasses.replace(
                stored,
                size_bytes=stored.size_bytes + body.size_bytes,
                crc32c=crc32c_of([before, body]),
                md5=None,
                updated_s=self._clock.now(),
                body_files=self._joined_files(before, body),
            )
            objects.rows.write(whole)
            self._write_data(whole, before, body)
        return whole

    def finalize(self, key: ObjectKey, crc32c: str | None) -> StoredObject:
        """Close an open object for good; raises 400 when its checksum is another than expected."""
        objects = self._objects
        with objects.database.change():
            stored = self.find(key)
            if crc32c not in (None, stored.crc32c):
                raise invalid(
                    f'Provided CRC32C "{crc32c}" doesn\'t match calculated CRC32C'
                    f' "{stored.crc32c}".'
                )
            properties = {**stored.properties, FINALIZED_S: self._clock.now()}
            del properties[OPEN]
            finalized = dataclasses.replace(stored, properties=properties)
            objects.rows.write(finalized)
        return finalized

    def _joined_files(self, before: ObjectBody, body: ObjectBody) -> tuple[str, ...]:
        """The files of both; none while both together are small."""
        is_small = before.size_bytes + body.size_bytes <= INLINE_BYTES
        if is_small and not before.files and not body.files:
            return ()
        return tuple(
            file
            for part in (before, body)
            if part.size_bytes
            for file in self._objects.bodies.in_files(part)
        )

    def _write_data(self, whole: StoredObject, before: ObjectBody, body: ObjectBody) -> None:
        if whole.body_files and not before.files:
            self._objects.database.execute(
                "DELETE FROM storage_bodies WHERE generation = ?", whole.generation
            )
        elif not whole.body_files:
            self._objects.database.execute(
                "UPDATE storage_bodies SET data = ? WHERE generation = ?",
                *((before.data or b"") + (body.data or b""), whole.generation),
            )
