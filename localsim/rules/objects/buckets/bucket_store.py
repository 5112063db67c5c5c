"""The buckets and their IAM policies."""

import dataclasses
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from localsim.clock import Clock
from localsim.rules.objects.access.access_lists import (
    BUCKET_LIST,
    DEFAULT_LIST,
    PUBLIC,
    AccessList,
    ListEdit,
)
from localsim.rules.objects.buckets.bucket_access import (
    DEFAULT_FIELD,
    NO_LISTS,
    BucketLists,
    PredefinedLists,
    asked_lists,
    check_readable,
    checked_default,
    checked_own,
    default_list,
    own_list,
    with_own_list,
)
from localsim.rules.objects.buckets.bucket_fields import (
    has_uniform_access,
    locked_settings,
    new_settings,
    patched_settings,
    prevents_public_access,
    replaced_settings,
)
from localsim.rules.objects.buckets.policies import (
    Binding,
    checked_bindings,
    first_bindings,
    shown_policy,
)
from localsim.rules.objects.files.object_database import ObjectDatabase
from localsim.rules.objects.storage_model import (
    NO_PRECONDITIONS,
    Bucket,
    Preconditions,
    Properties,
    StorageError,
    invalid,
)
from localsim.rules.objects.tables import bucket_of_row, next_generation

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_RESERVED = re.compile(r"goog.*|.*g[o0][o0]g[l1][e3].*|[0-9]+(\.[0-9]+){3}")
_MAX_COMPONENT = 63


def check_bucket_name(name: str) -> None:
    """Refuse the names that Cloud Storage refuses: cloud.google.com/storage/docs/buckets#naming."""
    parts = name.split(".")
    if (
        not _NAME.fullmatch(name)
        or _RESERVED.fullmatch(name)
        or not all(0 < len(part) <= _MAX_COMPONENT for part in parts)
    ):
        raise invalid(f"Invalid bucket name: '{name}'")


class Buckets:
    """Every bucket of every project; names are global, as on Google."""

    def __init__(
        self,
        database: ObjectDatabase,
        clock: Clock,
        *,
        also_delete: Callable[[str], object] = lambda _bucket: None,
    ) -> None:
        """`also_delete` is called with the name of a bucket that is deleted, within the change."""
        self._database = database
        self._clock = clock
        self._also_delete = also_delete

    def create(
        self,
        project: str,
        name: str,
        resource: Properties,
        predefined: PredefinedLists = NO_LISTS,
    ) -> Bucket:
        """Create a bucket; raises 409 when the name is taken."""
        check_bucket_name(name)
        now_s = self._clock.now()
        settings = new_settings(name, resource, now_s)
        with self._database.change():
            if self._find(name) is not None:
                raise StorageError(
                    409,
                    "conflict",
                    "Your previous request to create the named bucket succeeded"
                    " and you already own it.",
                )
            generation = next_generation(self._database.connection, self._clock)
            bucket = Bucket(name, project, generation, 1, settings, now_s, now_s)
            bucket = self._keep_lists(bucket, asked_lists(bucket, resource, predefined))
            self._write(bucket)
        return bucket

    def get(
        self, name: str, preconditions: Preconditions = NO_PRECONDITIONS, *, reading: bool = False
    ) -> Bucket:
        """The bucket of that name; raises 404."""
        bucket = self._find(name)
        if bucket is None:
            raise StorageError(404, "notFound", "The specified bucket does not exist.")
        preconditions.check(bucket, reading=reading)
        return bucket

    def list(self, project: str, *, prefix: str, start: str, limit: int) -> list[Bucket]:
        """The first `limit` buckets of a project with the prefix, from the name `start` on."""
        rows = self._database.execute(
            "SELECT * FROM storage_buckets WHERE project = ? AND name >= ?"
            " AND substr(name, 1, ?) = ? ORDER BY name LIMIT ?",
            *(project, start, len(prefix), prefix, limit),
        )
        return [bucket_of_row(row) for row in rows]

    def patch(
        self,
        name: str,
        change: Properties,
        preconditions: Preconditions = NO_PRECONDITIONS,
        predefined: PredefinedLists = NO_LISTS,
    ) -> Bucket:
        """Change the given settings; an empty change leaves even the metageneration alone."""
        with self._database.change():
            bucket = self.get(name, preconditions)
            if not change and predefined.is_empty:
                return bucket
            settings = patched_settings(name, bucket.properties, change, self._clock.now())
            return self._set(bucket, settings, change, predefined)

    def update(
        self,
        name: str,
        resource: Properties,
        preconditions: Preconditions = NO_PRECONDITIONS,
        predefined: PredefinedLists = NO_LISTS,
    ) -> Bucket:
        """Replace the settings as a whole, but for the access control lists."""
        with self._database.change():
            bucket = self.get(name, preconditions)
            settings = replaced_settings(name, bucket.properties, resource, self._clock.now())
            return self._set(bucket, settings, resource, predefined)

    def lock_retention_policy(self, name: str, preconditions: Preconditions) -> Bucket:
        """Lock the retention policy for ever, at the given metageneration."""
        with self._database.change():
            bucket = self.get(name)
            if preconditions.metageneration_match is None:
                message = "Required parameter: ifMetagenerationMatch"
                raise StorageError(400, "required", message)
            settings = locked_settings(name, bucket.properties)
            preconditions.check(bucket)
            return self._change(bucket, settings)

    def delete(self, name: str, preconditions: Preconditions = NO_PRECONDITIONS) -> None:
        """Delete an empty bucket; raises 409 when it holds objects, noncurrent ones included."""
        with self._database.change():
            self.get(name, preconditions)
            if self._has_objects(name):
                message = "The bucket you tried to delete is not empty."
                raise StorageError(409, "conflict", message)
            self._database.execute("DELETE FROM storage_buckets WHERE name = ?", name)
            self._database.execute("DELETE FROM storage_policies WHERE bucket = ?", name)
            self._database.execute("DELETE FROM storage_notifications WHERE bucket = ?", name)
            self._also_delete(name)

    def get_iam_policy(self, name: str, version: int = 1) -> dict[str, Any]:
        """The policy of a bucket as storage#policy, in at most the given version."""
        with self._database.snapshot():
            bucket = self.get(name)
            return shown_policy(bucket, self._bindings(bucket), version)

    def roles_of(self, name: str, members: Collection[str]) -> frozenset[str]:
        """The roles without conditions that a bucket's policy gives any of the members.

        None for a bucket that is not there, and none to everybody where public access is prevented.
        """
        with self._database.snapshot():
            bucket = self._find(name)
            bindings = () if bucket is None else self._bindings(bucket)
            counted = set(members)
            if bucket is not None and prevents_public_access(bucket.properties):
                counted -= set(PUBLIC)
            return frozenset(
                binding["role"]
                for binding in bindings
                if "condition" not in binding and not counted.isdisjoint(binding["members"])
            )

    def shown_lists(self, bucket: Bucket) -> BucketLists:
        """The access control lists of a bucket; none with uniform access."""
        if has_uniform_access(bucket.properties):
            return BucketLists(None, None)
        return BucketLists(own_list(self._bindings(bucket)), default_list(bucket))

    def own_list(
        self, name: str, preconditions: Preconditions = NO_PRECONDITIONS
    ) -> tuple[Bucket, AccessList]:
        """A bucket and its own list; raises 404, and 400 with uniform access."""
        with self._database.snapshot():
            bucket = self.get(name, preconditions, reading=True)
            check_readable(bucket, BUCKET_LIST)
            return bucket, own_list(self._bindings(bucket))

    def default_list(
        self, name: str, preconditions: Preconditions = NO_PRECONDITIONS
    ) -> tuple[Bucket, AccessList]:
        """A bucket and the list that its new objects get; raises 404, and 400."""
        bucket = self.get(name, preconditions, reading=True)
        check_readable(bucket, DEFAULT_LIST)
        return bucket, default_list(bucket)

    def change_own_list(
        self, name: str, edit: ListEdit, preconditions: Preconditions = NO_PRECONDITIONS
    ) -> tuple[Bucket, AccessList]:
        """Change a bucket's own list; raises StorageError."""
        with self._database.change():
            bucket = self.get(name, preconditions)
            checked_own(bucket, {})
            before = own_list(self._bindings(bucket))
            entries = checked_own(bucket, edit(before), before)
            bucket = self._keep_lists(bucket, BucketLists(entries, None))
            return self._change(bucket, bucket.properties), entries

    def change_default_list(
        self, name: str, edit: ListEdit, preconditions: Preconditions = NO_PRECONDITIONS
    ) -> tuple[Bucket, AccessList]:
        """Change the list that new objects get; raises StorageError."""
        with self._database.change():
            bucket = self.get(name, preconditions)
            checked_default(bucket, {})
            before = default_list(bucket)
            entries = checked_default(bucket, edit(before), before)
            bucket = self._keep_lists(bucket, BucketLists(None, entries))
            return self._change(bucket, bucket.properties), entries

    def set_iam_policy(self, name: str, policy: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the policy; raises 412 when its etag is not the current one."""
        with self._database.change():
            bucket = self.get(name)
            bindings = checked_bindings(bucket, policy)
            self._write_bindings(name, bindings)
            changed = self._change(bucket, bucket.properties)
        return shown_policy(changed, bindings, version=3)

    def _set(
        self, bucket: Bucket, settings: Properties, resource: Properties, given: PredefinedLists
    ) -> Bucket:
        """Change the settings, and the lists that the resource or the names ask for."""
        changed = dataclasses.replace(bucket, properties=settings)
        changed = self._keep_lists(changed, asked_lists(changed, resource, given))
        return self._change(bucket, changed.properties)

    def _keep_lists(self, bucket: Bucket, lists: BucketLists) -> Bucket:
        """The bucket with the lists that are given; its own list is written into its policy."""
        if lists.own is not None:
            bindings = with_own_list(bucket, self._bindings(bucket), lists.own)
            self._write_bindings(bucket.name, bindings)
        if lists.default is None:
            return bucket
        properties = {**bucket.properties, DEFAULT_FIELD: lists.default}
        return dataclasses.replace(bucket, properties=properties)

    def _write_bindings(self, name: str, bindings: Sequence[Binding]) -> None:
        statement = "INSERT OR REPLACE INTO storage_policies VALUES (?, ?)"
        self._database.execute(statement, name, json.dumps(bindings))

    def _change(self, bucket: Bucket, settings: Properties) -> Bucket:
        changed = dataclasses.replace(
            bucket,
            properties=settings,
            metageneration=bucket.metageneration + 1,
            updated_s=self._clock.now(),
        )
        self._write(changed)
        return changed

    def _write(self, bucket: Bucket) -> None:
        values = {field.name: getattr(bucket, field.name) for field in dataclasses.fields(bucket)}
        row = values | {"properties": json.dumps(dict(bucket.properties))}
        statement = "INSERT OR REPLACE INTO storage_buckets VALUES (?, ?, ?, ?, ?, ?, ?)"
        self._database.execute(statement, *row.values())

    def _bindings(self, bucket: Bucket) -> Sequence[Binding]:
        query = "SELECT bindings FROM storage_policies WHERE bucket = ?"
        row = self._database.execute(query, bucket.name).fetchone()
        return first_bindings(bucket) if row is None else tuple(json.loads(row[0]))

    def _find(self, name: str) -> Bucket | None:
        query = "SELECT * FROM storage_buckets WHERE name = ?"
        row = self._database.execute(query, name).fetchone()
        return None if row is None else bucket_of_row(row)

    def _has_objects(self, name: str) -> bool:
        return any(
            self._database.execute(
                f"SELECT 1 FROM {table} WHERE bucket = ? LIMIT 1", name
            ).fetchone()
            for table in ("storage_objects", "storage_noncurrent")
        )
