"""The folders of buckets with a hierarchical namespace: made, listed, renamed, deleted.

Rules and words: cloud.google.com/storage/docs/folders-overview, and what a public client's tests
recorded of the JSON API in October 2026. An object's folders are there as long as the object is:
a folder that is not empty cannot be deleted.
"""

import dataclasses
from collections.abc import Callable

from localsim.clock import Clock
from localsim.rules.objects.bucket_settings.namespaces import has_folders
from localsim.rules.objects.buckets.bucket_operations import BucketOperation, BucketOperations
from localsim.rules.objects.buckets.bucket_store import Buckets
from localsim.rules.objects.files.object_database import ObjectDatabase
from localsim.rules.objects.folders.folder_changes import DELETE_RECURSIVE, RENAME, change_details
from localsim.rules.objects.folders.folder_names import (
    behind_folder,
    complete_name,
    parent_names,
)
from localsim.rules.objects.folders.folder_records import (
    FolderConflict,
    FolderPage,
    FolderQuery,
    FolderRecord,
    check_preconditions,
    check_prefix,
    page_of,
)
from localsim.rules.objects.retention import check_deletable
from localsim.rules.objects.storage_model import (
    MAX_NAME_BYTES,
    NO_PRECONDITIONS,
    ObjectKey,
    Preconditions,
    StorageError,
    invalid,
)
from localsim.rules.objects.tables import object_of_row

_ROW = "SELECT bucket, name, metageneration, created_s, updated_s FROM storage_folders"
_IN_TREE = "bucket = ? AND name >= ? AND name < ?"
_MOVED = ("storage_objects", "storage_folders", "storage_managed_folders")
"""The tables whose names change with that of a folder above them."""


class Folders:
    """The folders of all buckets."""

    def __init__(
        self,
        database: ObjectDatabase,
        buckets: Buckets,
        operations: BucketOperations,
        clock: Clock,
    ) -> None:
        self._database = database
        self._buckets = buckets
        self._operations = operations
        self._clock = clock

    def create(self, bucket: str, name: str, *, recursive: bool = False) -> FolderRecord:
        """Create a folder, with `recursive` those above it too; raises 409 when it is there."""
        with self._database.change():
            self._check_bucket(bucket)
            complete = complete_name(name)
            if self._find(bucket, complete) is not None:
                raise _exists()
            if recursive:
                self.ensure_parents(bucket, complete)
            self._check_parent(bucket, complete)
            return self._insert(bucket, complete)

    def get(
        self, bucket: str, name: str, preconditions: Preconditions = NO_PRECONDITIONS
    ) -> FolderRecord:
        """A folder; raises 404."""
        with self._database.snapshot():
            self._check_bucket(bucket)
            found = self._find(bucket, complete_name(name))
            if found is None:
                raise StorageError(404, "notFound", "The folder does not exist.")
            check_preconditions(found, preconditions)
            return found

    def list(self, bucket: str, query: FolderQuery) -> FolderPage:
        """A page of a bucket's folders in the order of their names."""
        check_prefix(query.prefix)
        start = max(query.start, query.prefix)
        limits = [behind_folder(query.prefix)] if query.prefix else []
        end = min([*limits, *([query.end] if query.end else [])], default="\U0010ffff")
        depth = query.prefix.count("/") + 1
        levels = "AND length(name) - length(replace(name, '/', '')) <= ?"
        with self._database.snapshot():
            self._check_bucket(bucket)
            rows = self._database.execute(
                f"{_ROW} WHERE {_IN_TREE} {levels} ORDER BY name LIMIT ?",
                *(bucket, start, end, depth if query.is_one_level else 10_000, query.limit + 1),
            ).fetchall()
        return page_of(rows, query.limit)

    def delete(
        self, bucket: str, name: str, preconditions: Preconditions = NO_PRECONDITIONS
    ) -> None:
        """Delete an empty folder; raises 409 when there is anything in it."""
        with self._database.change():
            folder = self.get(bucket, name, preconditions)
            if self._is_used(folder):
                raise FolderConflict("The folder you tried to delete is not empty.")
            self._remove(folder)

    def delete_recursive(
        self,
        bucket: str,
        name: str,
        preconditions: Preconditions,
        delete_object: Callable[[ObjectKey], object],
    ) -> BucketOperation:
        """Delete a folder with all that is in it, or nothing; `delete_object` deletes an object."""
        with self._database.change():
            began_s = self._clock.now()
            folder = self.get(bucket, name, preconditions)
            query = f"SELECT name FROM storage_objects WHERE {_IN_TREE}"
            for (found,) in self._database.execute(query, *_tree(folder)).fetchall():
                delete_object(ObjectKey(bucket, found))
            statement = f"DELETE FROM storage_folders WHERE {_IN_TREE}"
            self._database.execute(statement, *_tree(folder))
            return self._operations.add(
                bucket,
                DELETE_RECURSIVE,
                change_details(folder, None),
                began_s=began_s,
                ended_s=self._clock.now(),
            )

    def rename(
        self,
        bucket: str,
        source: str,
        destination: str,
        preconditions: Preconditions = NO_PRECONDITIONS,
    ) -> BucketOperation:
        """Rename a folder with all that is in it, in one change.

        Raises 404 for a source that is not there, and 409 for a destination that is, or whose
        parent is not there. The objects keep their generations and bytes: only names are written.
        """
        with self._database.change():
            began_s = self._clock.now()
            folder = self.get(bucket, source, preconditions)
            renamed = complete_name(destination)
            self._check_destination(folder, renamed)
            self._check_movable(folder, renamed)
            for table in _MOVED:
                self._database.execute(
                    f"UPDATE {table} SET name = ? || substr(name, ?) WHERE {_IN_TREE}",
                    *(renamed, len(folder.name) + 1, *_tree(folder)),
                )
            now_s = self._clock.now()
            statement = "UPDATE storage_folders SET updated_s = ? WHERE bucket = ? AND name = ?"
            self._database.execute(statement, now_s, bucket, renamed)
            result = dataclasses.replace(folder, name=renamed, updated_s=now_s)
            details = change_details(folder, result)
            return self._operations.add(bucket, RENAME, details, began_s=began_s, ended_s=now_s)

    def ensure_parents(self, bucket: str, name: str) -> None:
        """Within a change: make the folders above an object or a folder that are not there."""
        for parent in parent_names(name):
            if self._find(bucket, parent) is not None:
                return
            self._insert(bucket, parent)

    def ensure_folders_of(self, bucket: str, name: str) -> None:
        """Within a change: make the folders of an object; `a/` is its own folder."""
        if name.endswith("/") and self._find(bucket, name) is None:
            self._insert(bucket, name)
        self.ensure_parents(bucket, name)

    def _check_bucket(self, bucket: str) -> None:
        if not has_folders(self._buckets.get(bucket).properties):
            raise FolderConflict("The bucket does not support hierarchical namespace.")

    def _check_parent(self, bucket: str, name: str) -> None:
        parent = next(parent_names(name), None)
        if parent is not None and self._find(bucket, parent) is None:
            raise FolderConflict("The parent folder does not exist.")

    def _check_destination(self, folder: FolderRecord, renamed: str) -> None:
        if self._find(folder.bucket, renamed) is not None:
            raise _exists()
        if renamed.startswith(folder.name):
            raise invalid("A folder cannot be moved into itself.")
        self._check_parent(folder.bucket, renamed)

    def _check_movable(self, folder: FolderRecord, renamed: str) -> None:
        """Refuse to move what a hold keeps, and names that would be too long."""
        bucket = self._buckets.get(folder.bucket)
        query = f"SELECT * FROM storage_objects WHERE {_IN_TREE} AND properties LIKE '%Hold%'"
        for row in self._database.execute(query, *_tree(folder)):
            check_deletable(bucket, object_of_row(row), self._clock.now())
        longer_bytes = len(renamed.encode()) - len(folder.name.encode())
        for table in _MOVED if longer_bytes > 0 else ():
            query = f"SELECT max(length(CAST(name AS BLOB))) FROM {table} WHERE {_IN_TREE}"
            longest = self._database.execute(query, *_tree(folder)).fetchone()[0] or 0
            if longest + longer_bytes > MAX_NAME_BYTES:
                raise invalid(f"Object names must be 1 to {MAX_NAME_BYTES} bytes of UTF-8.")

    def _is_used(self, folder: FolderRecord) -> bool:
        """Whether there is an object or another folder in a folder."""
        return any(
            self._database.execute(
                f"SELECT 1 FROM {table} WHERE {_IN_TREE} AND name != ? LIMIT 1",
                *(*_tree(folder), folder.name if table == "storage_folders" else ""),
            ).fetchone()
            for table in ("storage_objects", "storage_folders")
        )

    def _find(self, bucket: str, name: str) -> FolderRecord | None:
        query = f"{_ROW} WHERE bucket = ? AND name = ?"
        row = self._database.execute(query, bucket, name).fetchone()
        return None if row is None else FolderRecord(*row)

    def _insert(self, bucket: str, name: str) -> FolderRecord:
        now_s = self._clock.now()
        statement = "INSERT INTO storage_folders VALUES (?, ?, 1, ?, ?)"
        self._database.execute(statement, bucket, name, now_s, now_s)
        return FolderRecord(bucket, name, 1, now_s, now_s)

    def _remove(self, folder: FolderRecord) -> None:
        statement = "DELETE FROM storage_folders WHERE bucket = ? AND name = ?"
        self._database.execute(statement, folder.bucket, folder.name)


def _tree(folder: FolderRecord) -> tuple[str, str, str]:
    """The bucket, and between which names a folder and all that is in it lie."""
    return folder.bucket, folder.name, behind_folder(folder.name)


def _exists() -> StorageError:
    return StorageError(409, "conflict", "The folder you tried to create already exists.")
