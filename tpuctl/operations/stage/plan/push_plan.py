"""What a push is going to do: the files of a directory against the objects under a prefix."""

import os
import stat
from collections.abc import Iterator
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter

from tpuctl.errors import LocalIOError, NotFoundError, TpuctlError, UsageError
from tpuctl.models.transfer import (
    FileIdentity,
    PlannedDeletion,
    Transfer,
    TransferPlan,
    TransferRefusal,
    TransferScope,
)
from tpuctl.operations.stage.plan.checksum_cache import ChecksumCache
from tpuctl.operations.stage.plan.names import (
    OWN_PREFIX,
    folder_prefix,
    single_key,
    why_no_file,
    why_no_key,
)
from tpuctl.operations.stage.plan.walk import FoundFile, Selection, selection, walk_files
from tpuctl.store.gcs.bulk import BulkBucket, ObjectInfo

_AT_ONCE = 500
_Row = tuple[str, FoundFile | None, ObjectInfo | None]
"""A key, and the file or the object of it."""


def plan_push(
    source: str, bulk: BulkBucket, prefix: str, checksums: ChecksumCache, scope: TransferScope
) -> TransferPlan:
    """Plan to copy the files under `source` to objects under `prefix`.

    Raises NotFoundError when there is no source, and when there is no bucket; LocalIOError,
    and UsageError for a pipe or a device: it has no size to plan with.
    """
    root = os.path.abspath(source)
    if os.path.isdir(root):
        return _PushPlanner(root, folder_prefix(prefix), checksums, scope).plan_all(bulk)
    if scope.delete:
        raise UsageError(f"--delete needs a directory, and {source} is not one")
    identity = _identity(source, root)
    root = os.path.realpath(root)
    key = single_key(prefix, os.path.basename(os.path.abspath(source)))
    planner = _PushPlanner(os.path.dirname(root), "", checksums, scope)
    plan = planner.plan
    if why := why_no_key(key):
        plan.refusals.append(TransferRefusal(source, why))
        return plan
    planner.add(key, (os.path.basename(root), os.path.basename(root), identity), bulk.head(key))
    if plan.refusals:
        raise LocalIOError(f"cannot read {source}: {plan.refusals[0].why}")
    return plan


def _identity(source: str, path: str) -> FileIdentity:
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(
            f"there is no file or directory {source}", hint="check the path"
        ) from error
    except OSError as error:
        raise LocalIOError(f"cannot read {source}: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        hint = f"pipe it: cat {source} | tpuctl data push - gs://BUCKET/NAME"
        raise UsageError(f"{source} is not a regular file", hint=hint)
    return FileIdentity.of(status)


class _PushPlanner:
    """Builds the plan of a push from the files of a directory and the objects of a bucket."""

    def __init__(
        self, root: str, prefix: str, checksums: ChecksumCache, scope: TransferScope
    ) -> None:
        self.plan = TransferPlan(root)
        self._prefix = prefix
        self._checksums = checksums
        self._scope = scope

    def plan_all(self, bulk: BulkBucket) -> TransferPlan:
        """Compare all files with all objects, in the order of names; returns the plan."""
        chosen = selection(self.plan.root, self._scope)
        listing = bulk.list(self._prefix)  # which begins while the directory is walked
        joined = _join_sides(self._find_files(chosen), self._prefix, listing)
        while batch := list(islice(joined, _AT_ONCE)):
            self._checksums.expect(file[2] for file, listed in batch if file and listed)
            for file, listed in batch:
                if file is not None:
                    self.add(self._prefix + file[0], file, listed)
                elif listed is not None and self._scope.delete:
                    self._delete(listed, chosen)
        return self.plan

    def add(self, key: str, file: FoundFile, listed: ObjectInfo | None) -> None:
        """Plan the transfer of a file to the object of that key, which may be `listed`."""
        _, actual, identity = file
        value, why = None, ""
        path = self.plan.path(actual)
        try:
            if listed is not None and listed.size_bytes == identity.size_bytes:
                value = self._checksums.of(path, identity)
            elif not os.access(path, os.R_OK):
                why = "Permission denied"
        except OSError as error:
            why = str(error.strerror)
        except TpuctlError as error:
            why = str(error).removeprefix(f"{path} ")
        if why:
            self._refuse(path, why)
            return
        generation = listed.generation if listed else 0
        is_current = listed is not None and value is not None and value == listed.crc32c
        seen = None if is_current else identity
        self.plan.transfers.append(
            Transfer(key, actual, identity.size_bytes, generation, is_current, value, seen)
        )

    def _refuse(self, path: str, why: str) -> None:
        self.plan.refusals.append(TransferRefusal(path, why))

    def _find_files(self, chosen: Selection) -> list[FoundFile]:
        files = []
        for found in walk_files(self.plan.root, chosen):
            if isinstance(found, TransferRefusal):
                self._refuse(self.plan.path(found.name), found.why)
            elif why := why_no_key(self._prefix + found[0]):
                self._refuse(self.plan.path(found[0]), why)
            else:
                files.append(found)
        files.sort()
        return files

    def _delete(self, listed: ObjectInfo, chosen: Selection) -> None:
        name = listed.key[len(self._prefix) :]
        # What no file could have been was not sent by a push, and is not a push's to delete.
        if (
            not listed.key.startswith(OWN_PREFIX)
            and why_no_file(name) is None
            and chosen.matches(name)
        ):
            self.plan.deletions.append(
                PlannedDeletion(listed.key, name, listed.size_bytes, listed.generation)
            )


def _join_sides(
    files: list[FoundFile], prefix: str, listed: Iterator[ObjectInfo]
) -> Iterator[tuple[FoundFile | None, ObjectInfo | None]]:
    """Yield the file and the object of each key; `files` and `listed` are in the order of keys."""
    sides: tuple[Iterator[_Row], Iterator[_Row]] = (
        ((prefix + file[0], file, None) for file in files),
        ((entry.key, None, entry) for entry in listed),
    )
    for _, rows in groupby(merge(*sides, key=itemgetter(0)), key=itemgetter(0)):
        first, *second = rows
        yield first[1], (second[0] if second else first)[2]
