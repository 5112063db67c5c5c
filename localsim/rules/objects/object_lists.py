"""The access control lists of the objects of a store, and whom they let do what."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from localsim.clock import Clock
from localsim.rules.objects.access.access_lists import (
    OBJECT_LIST,
    PUBLIC,
    AccessList,
    ListEdit,
    member_of,
    uniform_access_refused,
)
from localsim.rules.objects.buckets.bucket_fields import has_uniform_access, prevents_public_access
from localsim.rules.objects.buckets.object_access import (
    ObjectAccess,
    checked_entries,
    object_access,
)
from localsim.rules.objects.buckets.object_policies import ROLES, entries_of_policy, object_policy
from localsim.rules.objects.object_copies import ObjectChanges
from localsim.rules.objects.properties import ACL
from localsim.rules.objects.storage_model import (
    NO_PRECONDITIONS,
    Bucket,
    ObjectKey,
    Preconditions,
    StorageError,
    StoredObject,
)


class ObjectLists:
    """Reads and changes the lists of objects, which are kept among their properties."""

    def __init__(self, store: ObjectChanges, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def shown(self, stored: StoredObject) -> ObjectAccess | None:
        """The owner and the list of an object; None with uniform access."""
        bucket = self._store.buckets.get(stored.bucket)
        return None if has_uniform_access(bucket.properties) else object_access(bucket, stored)

    def owner(self, stored: StoredObject) -> str:
        """The entity that owns an object."""
        return object_access(self._store.buckets.get(stored.bucket), stored).owner

    def read(
        self, key: ObjectKey, preconditions: Preconditions = NO_PRECONDITIONS
    ) -> tuple[StoredObject, AccessList]:
        """An object and its list; raises 404, and 400 with uniform access."""
        bucket, stored = self._find(key, preconditions, OBJECT_LIST.cannot_read, reading=True)
        return stored, object_access(bucket, stored).entries

    def change(
        self, key: ObjectKey, edit: ListEdit, preconditions: Preconditions = NO_PRECONDITIONS
    ) -> tuple[StoredObject, AccessList]:
        """Change the list of an object; raises StorageError."""
        with self._store.database.change():
            bucket, stored = self._find(key, preconditions, OBJECT_LIST.cannot_change)
            entries = edit(object_access(bucket, stored).entries)
            return self._write(bucket, stored, entries)

    def policy(self, key: ObjectKey) -> dict[str, Any]:
        """The IAM policy of an object; raises 404, and 400 with uniform access."""
        bucket, stored = self._find(key, NO_PRECONDITIONS, OBJECT_LIST.cannot_read)
        return object_policy(bucket, stored, object_access(bucket, stored).entries)

    def set_policy(self, key: ObjectKey, policy: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the policy of an object, and so its list; raises StorageError."""
        with self._store.database.change():
            bucket, stored = self._find(key, NO_PRECONDITIONS, OBJECT_LIST.cannot_change)
            stored, entries = self._write(bucket, stored, entries_of_policy(bucket, stored, policy))
            return object_policy(bucket, stored, entries)

    def roles_of(self, key: ObjectKey, members: Collection[str]) -> frozenset[str]:
        """The roles that an object's list gives any of the members of IAM policies.

        None for an object that is not there or has uniform access, and none to everybody where
        public access is prevented.
        """
        try:
            bucket, stored = self._find(key, NO_PRECONDITIONS, "")
        except StorageError:
            return frozenset()
        counted = set(members)
        if prevents_public_access(bucket.properties):
            counted -= set(PUBLIC)
        entries = object_access(bucket, stored).entries
        return frozenset(
            ROLES[role]
            for entity, role in entries.items()
            if member_of(entity, bucket.project) in counted
        )

    def _find(
        self, key: ObjectKey, preconditions: Preconditions, refused: str, *, reading: bool = False
    ) -> tuple[Bucket, StoredObject]:
        with self._store.database.snapshot():
            bucket = self._store.buckets.get(key.bucket)
            stored = self._store.find(key, preconditions, reading=reading)
        if has_uniform_access(bucket.properties):
            raise uniform_access_refused(refused)
        return bucket, stored

    def _write(
        self, bucket: Bucket, stored: StoredObject, entries: AccessList
    ) -> tuple[StoredObject, AccessList]:
        entries = checked_entries(bucket, stored, entries)
        changed = dataclasses.replace(
            stored,
            properties={**stored.properties, ACL: entries},
            metageneration=stored.metageneration + 1,
            updated_s=self._clock.now(),
        )
        self._store.rows.write(changed)
        return changed, entries
