"""Soft-deleted objects: found, and restored one by one or in bulk.

cloud.google.com/storage/docs/json_api/v1/objects/restore and bulkRestore: what is restored is a new
generation with the metadata of the old one. That the old one is not soft-deleted any more then is
as in Google's storage test bench.
"""

import dataclasses
import math
from collections.abc import Sequence

from localsim.clock import Clock
from localsim.rules.objects.glob import Glob, compile_glob
from localsim.rules.objects.lifetime.object_retention import without_ended_retention
from localsim.rules.objects.lifetime.soft_delete import (
    RESTORE_TOKEN,
    no_policy,
    not_soft_deleted,
    restored_properties,
    soft_retention_s,
)
from localsim.rules.objects.object_copies import ObjectChanges
from localsim.rules.objects.properties import DEFAULT_CLASS
from localsim.rules.objects.storage_model import (
    NO_PRECONDITIONS,
    NewObject,
    ObjectKey,
    Preconditions,
    StorageError,
    StoredObject,
)

STEP_OBJECTS = 200
"""So many objects are looked at in one change of a bulk restore: meanwhile everybody waits."""


@dataclasses.dataclass(frozen=True, slots=True)
class BulkRestore:
    """Which soft-deleted objects to restore, and whether over live ones."""

    bucket: str
    globs: Sequence[str] = ()
    deleted_after_s: float = -math.inf
    deleted_before_s: float = math.inf
    created_after_s: float = -math.inf
    created_before_s: float = math.inf
    overwrites: bool = False
    copies_acl: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class BulkProgress:
    """How far a bulk restore has come: behind which name, with how many objects."""

    name: str = ""
    succeeded: int = 0
    failed: int = 0
    is_done: bool = False


class ObjectRestores:
    """What becomes of soft-deleted objects before they are due."""

    def __init__(self, store: ObjectChanges, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def get(
        self, key: ObjectKey, preconditions: Preconditions = NO_PRECONDITIONS, token: str = ""
    ) -> StoredObject:
        """The soft-deleted generation that the key names; raises 404 or 412."""
        with self._store.database.snapshot():
            stored = self._find(key, token)
        preconditions.check(stored, reading=True)
        return stored

    def restore(
        self,
        key: ObjectKey,
        preconditions: Preconditions = NO_PRECONDITIONS,
        token: str = "",
        *,
        copies_acl: bool = False,
    ) -> StoredObject:
        """Make a soft-deleted generation live again; the conditions are on what is live now."""
        with self._store.database.change():
            kept = self._find(key, token)
            return self._restore(kept, preconditions, copies_acl=copies_acl)

    def count(self, bucket: str) -> int:
        """How many generations could be restored; raises 400 where the bucket keeps none."""
        with self._store.database.snapshot():
            settings = self._store.buckets.get(bucket).properties
            count = self._store.rows.soft_deleted.count(bucket)
        if not count and not soft_retention_s(settings):
            raise no_policy(400, "SoftDeletePolicyRequired")
        return count

    def restore_some(self, wanted: BulkRestore, before: BulkProgress) -> BulkProgress:
        """Restore the next objects of a bulk restore, each at its latest generation."""
        globs = [compile_glob(text) for text in wanted.globs]
        with self._store.database.change():
            found = self._store.rows.soft_deleted.latest(
                wanted.bucket,
                before.name,
                wanted.deleted_after_s,
                wanted.deleted_before_s,
                STEP_OBJECTS,
            )
            results = [self._try(wanted, globs, kept) for kept in found]
        return BulkProgress(
            name=found[-1].name if found else before.name,
            succeeded=before.succeeded + results.count(True),
            failed=before.failed + results.count(False),
            is_done=len(found) < STEP_OBJECTS,
        )

    def _find(self, key: ObjectKey, token: str) -> StoredObject:
        settings = self._store.buckets.get(key.bucket).properties
        kept = self._store.rows.soft_deleted.find(key)
        if kept is not None and token in ("", kept.properties.get(RESTORE_TOKEN)):
            return kept
        if kept is None and not soft_retention_s(settings):
            raise no_policy()
        if kept is None and self._store.rows.find(key) is not None:
            raise not_soft_deleted()
        raise StorageError(404, "notFound", f"No such object: {key.bucket}/{key.name}")

    def _try(self, wanted: BulkRestore, globs: Sequence[Glob], kept: StoredObject) -> bool | None:
        """Whether an object could be restored; None for one that is left out."""
        if globs and not any(glob.matches(kept.name) for glob in globs):
            return None
        if not wanted.created_after_s < kept.created_s < wanted.created_before_s:
            return None
        if not wanted.overwrites and self._store.rows.live(kept.bucket, kept.name) is not None:
            return None
        try:
            with self._store.database.change():
                self._restore(kept, NO_PRECONDITIONS, copies_acl=wanted.copies_acl)
        except StorageError as error:
            if error.code >= 500:  # noqa: PLR2004
                raise
            return False
        return True

    def _restore(
        self, kept: StoredObject, preconditions: Preconditions, *, copies_acl: bool
    ) -> StoredObject:
        properties = {"storageClass": DEFAULT_CLASS, **restored_properties(kept.properties)}
        left_out = [] if copies_acl else ["acl"]
        given = {
            name: value
            for name, value in without_ended_retention(properties, self._clock.now()).items()
            if name not in left_out
        }
        body = self._store.rows.body(kept)
        self._store.rows.soft_deleted.forget(kept)
        new = NewObject(kept.bucket, kept.name, given, preconditions)
        stored = self._store.place(new, body, kept.component_count)
        if not body.files:
            self._store.bodies.drop(kept.generation, ())
        return stored
