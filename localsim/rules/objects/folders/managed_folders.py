"""Managed folders: names in any bucket with uniform access that carry policies of their own.

Rules and words are the JSON API's as a public client's tests recorded them in October 2026.
"""

import base64
import binascii
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from localsim.clock import Clock
from localsim.rules.objects.bucket_settings.namespaces import has_folders, has_uniform_access
from localsim.rules.objects.buckets.bucket_store import Buckets
from localsim.rules.objects.buckets.policies import Binding, checked_bindings, shown_bindings
from localsim.rules.objects.files.object_database import ObjectDatabase
from localsim.rules.objects.folders.folder_names import (
    behind_folder,
    complete_managed_name,
    parent_names,
)
from localsim.rules.objects.folders.folder_records import (
    FolderConflict,
    FolderPage,
    FolderRecord,
    check_preconditions,
    page_of,
)
from localsim.rules.objects.folders.folder_store import Folders
from localsim.rules.objects.storage_model import (
    NO_PRECONDITIONS,
    Bucket,
    Preconditions,
    StorageError,
    encode_etag,
    invalid,
    precondition_failed,
)

_TABLE = "storage_managed_folders"
_ROW = f"SELECT bucket, name, metageneration, created_s, updated_s FROM {_TABLE}"


class ManagedFolders:
    """The managed folders of all buckets, and their policies."""

    def __init__(
        self, database: ObjectDatabase, buckets: Buckets, folders: Folders, clock: Clock
    ) -> None:
        self._database = database
        self._buckets = buckets
        self._folders = folders
        self._clock = clock

    def create(self, bucket: str, name: str) -> FolderRecord:
        """Create a managed folder; raises 409 when it is there."""
        with self._database.change():
            found = self._bucket(bucket)
            complete = complete_managed_name(name)
            if self._find(bucket, complete) is not None:
                message = "The specified managed folder already exists."
                raise StorageError(409, "conflict", message)
            if has_folders(found.properties):
                self._folders.ensure_folders_of(bucket, complete)
            now_s = self._clock.now()
            statement = f"INSERT INTO {_TABLE} VALUES (?, ?, 1, ?, ?, NULL, 0)"
            self._database.execute(statement, bucket, complete, now_s, now_s)
        return FolderRecord(bucket, complete, 1, now_s, now_s)

    def get(
        self, bucket: str, name: str, preconditions: Preconditions = NO_PRECONDITIONS
    ) -> FolderRecord:
        """A managed folder; raises 404."""
        with self._database.snapshot():
            self._bucket(bucket)
            found = self._find(bucket, complete_managed_name(name))
            if found is None:
                message = "The specified managed folder does not exist."
                raise StorageError(404, "notFound", message)
            check_preconditions(found, preconditions)
            return found

    def list(self, bucket: str, *, prefix: str, start: str, limit: int) -> FolderPage:
        """A page of a bucket's managed folders that begin with the prefix."""
        with self._database.snapshot():
            self._buckets.get(bucket)
            rows = self._database.execute(
                f"{_ROW} WHERE bucket = ? AND name >= ? AND substr(name, 1, ?) = ?"
                " ORDER BY name LIMIT ?",
                *(bucket, max(prefix, start), len(prefix), prefix, limit + 1),
            ).fetchall()
        return page_of(rows, limit)

    def delete(
        self,
        bucket: str,
        name: str,
        preconditions: Preconditions = NO_PRECONDITIONS,
        *,
        allow_non_empty: bool = False,
    ) -> None:
        """Delete a managed folder with its policy; what is in it stays."""
        with self._database.change():
            folder = self.get(bucket, name, preconditions)
            if not allow_non_empty and self._is_used(folder):
                raise FolderConflict("The managed folder you tried to delete is not empty.")
            statement = f"DELETE FROM {_TABLE} WHERE bucket = ? AND name = ?"
            self._database.execute(statement, bucket, folder.name)

    def get_iam_policy(self, bucket: str, name: str, version: int = 1) -> dict[str, Any]:
        """The policy as storage#policy, in at most the given version."""
        with self._database.snapshot():
            return _shown(self.get(bucket, name), *self._policy(bucket, name), version)

    def set_iam_policy(self, bucket: str, name: str, policy: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the policy; raises 412 when its etag is not the current one."""
        with self._database.change():
            folder = self.get(bucket, name)
            _, writes = self._policy(bucket, name)
            _check_etag(policy.get("etag"), writes)
            given = {**policy, "etag": None}
            bindings = checked_bindings(self._buckets.get(bucket), given)
            statement = (
                f"UPDATE {_TABLE} SET bindings = ?, writes = ? WHERE bucket = ? AND name = ?"
            )
            row = json.dumps(bindings), writes + 1, bucket, folder.name
            self._database.execute(statement, *row)
        return _shown(folder, bindings, writes + 1, version=3)

    def roles_of(self, bucket: str, name: str, members: Collection[str]) -> frozenset[str]:
        """The roles that the managed folders above an object's name give any of the members."""
        above = list(parent_names(f"{name}x"))
        marks = ", ".join("?" * len(above))
        rows = self._database.execute(
            f"SELECT bindings FROM {_TABLE} WHERE bucket = ? AND bindings IS NOT NULL"
            f" AND name IN ({marks})",
            *(bucket, *above),
        )
        return frozenset(
            binding["role"]
            for (text,) in rows
            for binding in json.loads(text)
            if "condition" not in binding and not set(members).isdisjoint(binding["members"])
        )

    def _bucket(self, name: str) -> Bucket:
        bucket = self._buckets.get(name)
        if not has_uniform_access(bucket.properties):
            raise precondition_failed(
                "Uniform bucket-level access is required to be enabled on the bucket in order to"
                " perform this operation. Read more at"
                " https://cloud.google.com/storage/docs/uniform-bucket-level-access"
            )
        return bucket

    def _find(self, bucket: str, name: str) -> FolderRecord | None:
        query = f"{_ROW} WHERE bucket = ? AND name = ?"
        row = self._database.execute(query, bucket, name).fetchone()
        return None if row is None else FolderRecord(*row)

    def _policy(self, bucket: str, name: str) -> tuple[Sequence[Binding], int]:
        """The bindings, and how often they have been written."""
        query = f"SELECT bindings, writes FROM {_TABLE} WHERE bucket = ? AND name = ?"
        row = self._database.execute(query, bucket, complete_managed_name(name)).fetchone()
        return tuple(json.loads(row[0] or "[]")), row[1]

    def _is_used(self, folder: FolderRecord) -> bool:
        return any(
            self._database.execute(
                f"SELECT 1 FROM {table} WHERE bucket = ? AND name > ? AND name < ? LIMIT 1",
                *(folder.bucket, folder.name, behind_folder(folder.name)),
            ).fetchone()
            for table in ("storage_objects", _TABLE)
        )


def _shown(
    folder: FolderRecord, bindings: Sequence[Binding], writes: int, version: int
) -> dict[str, Any]:
    shown, shown_version = shown_bindings(bindings, version)
    policy: dict[str, Any] = {
        "kind": "storage#policy",
        "resourceId": f"projects/_/buckets/{folder.bucket}/managedFolders/{folder.name}",
        "etag": encode_etag(writes),
    }
    return {**policy, "version": shown_version, "bindings": shown} if shown else policy


def _check_etag(etag: Any, writes: int) -> None:
    if not etag or etag == encode_etag(writes):
        return
    try:
        base64.b64decode(str(etag), validate=True)
    except (binascii.Error, ValueError):
        raise invalid(f"Invalid value for ByteString: {etag}") from None
    raise precondition_failed()
