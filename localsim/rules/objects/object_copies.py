"""Objects placed, deleted, and made of others: composed, copied, moved by linking the files.

Rules: cloud.google.com/storage/docs/json_api/v1/objects, of the methods compose, copy and move.
"""

import dataclasses
from collections.abc import Sequence

from localsim.clock import Clock
from localsim.rules.objects.buckets.bucket_store import Buckets
from localsim.rules.objects.buckets.object_access import with_access
from localsim.rules.objects.files.body_directory import BodyDirectory
from localsim.rules.objects.files.incoming_body import ObjectBody
from localsim.rules.objects.files.object_database import ObjectDatabase
from localsim.rules.objects.object_rows import ObjectRows
from localsim.rules.objects.properties import DEFAULT_CLASS
from localsim.rules.objects.retention import (
    check_deletable,
    has_versions,
    inherited_properties,
    new_properties,
    with_expiration,
)
from localsim.rules.objects.storage_model import (
    NO_PRECONDITIONS,
    NewObject,
    ObjectKey,
    Preconditions,
    StorageError,
    StoredObject,
    check_object_name,
    invalid,
)

MAX_SOURCES = 32
MAX_OBJECT_BYTES = 5 * 1024**4


@dataclasses.dataclass(frozen=True, slots=True)
class ComposeSource:
    """One of the objects that are joined."""

    name: str
    generation: int | None = None
    if_generation_match: int | None = None


class ObjectChanges:
    """Finds, places and deletes objects, and makes objects of others by the rules for new ones."""

    def __init__(
        self,
        database: ObjectDatabase,
        bodies: BodyDirectory,
        rows: ObjectRows,
        buckets: Buckets,
        clock: Clock,
    ) -> None:
        self.database = database
        self.bodies = bodies
        self.rows = rows
        self.buckets = buckets
        self._clock = clock

    def find(
        self,
        key: ObjectKey,
        preconditions: Preconditions = NO_PRECONDITIONS,
        *,
        reading: bool = False,
    ) -> StoredObject:
        """An object as its row says, without what depends on its bucket."""
        self.buckets.get(key.bucket)
        stored = self.rows.find(key)
        if stored is None:
            raise StorageError(404, "notFound", f"No such object: {key.bucket}/{key.name}")
        preconditions.check(stored, reading=reading)
        return stored

    def place(
        self, new: NewObject, body: ObjectBody, components: int | None = None
    ) -> StoredObject:
        """Within a change: make a kept body the live object, by the rules of its bucket."""
        check_object_name(new.name)
        bucket = self.buckets.get(new.bucket)
        replaced = self.rows.live(new.bucket, new.name)
        new.preconditions.check(replaced)
        check_deletable(bucket, replaced, self._clock.now())
        if replaced is not None:
            self.rows.retire(replaced, keep=has_versions(bucket))
        properties = with_access(bucket, new.properties)
        completed = dataclasses.replace(new, properties=new_properties(bucket, properties))
        stored = self.rows.insert(completed, body, components)
        return with_expiration(bucket, stored)

    def delete(self, key: ObjectKey, preconditions: Preconditions = NO_PRECONDITIONS) -> None:
        """Delete the live object, which may become noncurrent, or the named generation."""
        with self.database.change():
            stored = self.find(key, preconditions)
            bucket = self.buckets.get(key.bucket)
            check_deletable(bucket, stored, self._clock.now())
            if key.generation is None:
                self.rows.retire(stored, keep=has_versions(bucket))
            else:
                self.rows.drop(stored)

    def compose(
        self, new: NewObject, sources: Sequence[ComposeSource], *, delete_sources: bool = False
    ) -> StoredObject:
        """Join 1 to 32 objects of the bucket into one, which may be one of them."""
        _check_number(len(sources))
        with self.database.change():
            found = [self._source(new.bucket, source) for source in sources]
            _check_size(sum(stored.size_bytes for stored in found))
            whole = self.bodies.joined([self.rows.body(stored) for stored in found])
            components = sum(stored.component_count or 1 for stored in found)
            result = self.place(new, dataclasses.replace(whole, md5=None), components)
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
        with self.database.change():
            original = self.find(source, source_preconditions)
            if keeps_metadata:
                new = dataclasses.replace(
                    new, properties=inherited_properties(original, new.properties)
                )
            components = original.component_count
            if components is not None and self.needs_rewrite(original, new):
                components = 1
            body = self.bodies.joined([self.rows.body(original)])
            return self.place(new, body, components)

    def needs_rewrite(self, source: StoredObject, new: NewObject) -> bool:
        """Whether the copy has another location or class, so that Google rewrites the bytes."""
        origin, target = (self.buckets.get(name) for name in (source.bucket, new.bucket))
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
        with self.database.change():
            original = self.find(source, source_preconditions)
            body = self.bodies.joined([self.rows.body(original)])
            new = NewObject(source.bucket, target_name, original.properties, preconditions)
            moved = self.place(new, body, original.component_count)
            # By its generation it goes for good, as the same object lives on.
            gone = ObjectKey(source.bucket, source.name, original.generation)
            self.delete(gone)
        return moved

    def _source(self, bucket: str, source: ComposeSource) -> StoredObject:
        key = ObjectKey(bucket, source.name, source.generation)
        try:
            return self.find(key, Preconditions(generation_match=source.if_generation_match))
        except StorageError as error:
            if error.code != 404:  # noqa: PLR2004
                raise
            message = f"Object {source.name} (generation: {source.generation or 0}) not found."
            raise StorageError(404, "notFound", message) from None

    def _remove_sources(self, new: NewObject, sources: Sequence[ComposeSource]) -> None:
        """Delete what has been joined, but not the result where it has taken a source's place."""
        gone = {(source.name, source.generation) for source in sources if source.name != new.name}
        for name, generation in sorted(gone, key=str):
            self.delete(ObjectKey(new.bucket, name, generation))


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
