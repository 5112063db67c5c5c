"""The buckets and their IAM policies."""

import dataclasses
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from localsim.clock import Clock
from localsim.rules.objects.buckets.bucket_fields import (
    locked_settings,
    new_settings,
    patched_settings,
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

    def create(self, project: str, name: str, resource: Properties) -> Bucket:
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
        self, name: str, change: Properties, preconditions: Preconditions = NO_PRECONDITIONS
    ) -> Bucket:
        """Change the given settings; an empty change leaves even the metageneration alone."""
        with self._database.change():
            bucket = self.get(name, preconditions)
            if not change:
                return bucket
            settings = patched_settings(name, bucket.properties, change, self._clock.now())
            return self._change(bucket, settings)

    def update(
        self, name: str, resource: Properties, preconditions: Preconditions = NO_PRECONDITIONS
    ) -> Bucket:
        """Replace the settings as a whole."""
        with self._database.change():
            bucket = self.get(name, preconditions)
            settings = replaced_settings(name, bucket.properties, resource, self._clock.now())
            return self._change(bucket, settings)

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

        None for a bucket that is not there.
        """
        with self._database.snapshot():
            bucket = self._find(name)
            bindings = () if bucket is None else self._bindings(bucket)
            return frozenset(
                binding["role"]
                for binding in bindings
                if "condition" not in binding and not set(members).isdisjoint(binding["members"])
            )

    def set_iam_policy(self, name: str, policy: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the policy; raises 412 when its etag is not the current one."""
        with self._database.change():
            bucket = self.get(name)
            bindings = checked_bindings(bucket, policy)
            statement = "INSERT OR REPLACE INTO storage_policies VALUES (?, ?)"
            self._database.execute(statement, name, json.dumps(bindings))
            changed = self._change(bucket, bucket.properties)
        return shown_policy(changed, bindings, version=3)

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
