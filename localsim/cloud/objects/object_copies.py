"""Objects made of others: composed, copied, moved. The files are linked, not copied.

Rules: cloud.google.com/storage/docs/json_api/v1/objects, of the methods compose, copy and move.
"""

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from localsim.cloud.objects.buckets.bucket_store import Buckets
from localsim.cloud.objects.files.body_directory import BodyDirectory
from localsim.cloud.objects.files.incoming_body import ObjectBody
from localsim.cloud.objects.files.object_database import ObjectDatabase
from localsim.cloud.objects.object_rows import ObjectRows
from localsim.cloud.objects.properties import DEFAULT_CLASS
from localsim.cloud.objects.retention import inherited_properties, new_properties
from localsim.cloud.objects.storage_model import (
    NO_PRECONDITIONS,
    NewObject,
    ObjectKey,
    Preconditions,
    StorageError,
    StoredObject,
    invalid,
)

MAX_SOURCES = 32
MAX_OBJECT_BYTES = 5 * 1024**4


class CopyStore(Protocol):
    """The operations on objects that copies need."""

    database: ObjectDatabase
    bodies: BodyDirectory
    rows: ObjectRows
    buckets: Buckets

    def find(self, key: ObjectKey, preconditions: Preconditions = ...) -> StoredObject:
        """The live or the named generation; raises 404 and 412."""
        ...

    def place(self, new: NewObject, body: ObjectBody, components: int | None = ...) -> StoredObject:
        """Make a body the live object; raises 400, 403, 404 and 412."""
        ...

    def delete(self, key: ObjectKey, preconditions: Preconditions = ...) -> None:
        """Delete the live or the named generation; raises 403, 404 and 412."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class ComposeSource:
    """One of the objects that are joined."""

    name: str
    generation: int | None = None
    if_generation_match: int | None = None


class ObjectCopier:
    """Makes objects of others by the rules for any new object."""

    def __init__(self, store: CopyStore) -> None:
        self._store = store

    def compose(
        self, new: NewObject, sources: Sequence[ComposeSource], *, delete_sources: bool = False
    ) -> StoredObject:
        """Join 1 to 32 objects of the bucket into one, which may be one of them."""
        _check_number(len(sources))
        with self._store.database.change():
            found = [self._source(new.bucket, source) for source in sources]
            _check_size(sum(stored.size_bytes for stored in found))
            whole = self._store.bodies.joined([self._store.rows.body(stored) for stored in found])
            components = sum(stored.component_count or 1 for stored in found)
            result = self._store.place(new, dataclasses.replace(whole, md5=None), components)
            if delete_sources:
                self._remove_sources(new, sources)
        return result

    def copy(
        self,
        source: ObjectKey,
        source_preconditions: Preconditions,
        new: NewObject,
        *,
        keeps_metadata: bool = False,
    ) -> StoredObject:
        """Copy an object; with `keeps_metadata` that of the source counts, not that of `new`."""
        with self._store.database.change():
            found = self._store.find(source, source_preconditions)
            if keeps_metadata:
                new = dataclasses.replace(new, properties=inherited_properties(found))
            components = found.component_count
            if components is not None and self.needs_rewrite(found, new):
                components = 1
            body = self._store.bodies.joined([self._store.rows.body(found)])
            return self._store.place(new, body, components)

    def needs_rewrite(self, source: StoredObject, new: NewObject) -> bool:
        """Whether the copy has another location or class, so that Google rewrites the bytes."""
        origin, target = (self._store.buckets.get(name) for name in (source.bucket, new.bucket))
        places = {bucket.properties.get("location", "US") for bucket in (origin, target)}
        classes = {
            properties.get("storageClass", DEFAULT_CLASS)
            for properties in (source.properties, new_properties(target, new.properties))
        }
        return len(places) > 1 or len(classes) > 1

    def move(
        self,
        source: ObjectKey,
        target_name: str,
        source_preconditions: Preconditions,
        preconditions: Preconditions = NO_PRECONDITIONS,
    ) -> StoredObject:
        """Rename the live object within its bucket; it replaces one that has the new name."""
        if source.name == target_name:
            raise invalid("Source and destination object names must be different.")
        with self._store.database.change():
            found = self._store.find(source, source_preconditions)
            body = self._store.bodies.joined([self._store.rows.body(found)])
            new = NewObject(source.bucket, target_name, found.properties, preconditions)
            moved = self._store.place(new, body, found.component_count)
            # By its generation it goes for good, as the same object lives on.
            gone = ObjectKey(source.bucket, source.name, found.generation)
            self._store.delete(gone)
        return moved

    def _source(self, bucket: str, source: ComposeSource) -> StoredObject:
        key = ObjectKey(bucket, source.name, source.generation)
        try:
            return self._store.find(key, Preconditions(generation_match=source.if_generation_match))
        except StorageError as error:
            if error.code != 404:  # noqa: PLR2004
                raise
            message = f"Object {source.name} (generation: {source.generation or 0}) not found."
            raise StorageError(404, "notFound", message) from None

    def _remove_sources(self, new: NewObject, sources: Sequence[ComposeSource]) -> None:
        """Delete what has been joined, but not the result where it has taken a source's place."""
        gone = {(source.name, source.generation) for source in sources if source.name != new.name}
        for name, generation in sorted(gone, key=str):
            self._store.delete(ObjectKey(new.bucket, name, generation))


def _check_number(sources: int) -> None:
    if not sources:
        raise invalid("You must provide at least one source component.")
    if sources > MAX_SOURCES:
        raise invalid(
            f"The number of source components provided ({sources}) exceeds the maximum"
            f" ({MAX_SOURCES})"
        )


def _check_size(size_bytes: int) -> None:
    if size_bytes > MAX_OBJECT_BYTES:
        raise invalid(
            f"The sources have {size_bytes} bytes, which exceeds the maximum of an object"
            f" ({MAX_OBJECT_BYTES})"
        )
