"""What a push is going to do: the files of a directory against the objects under a prefix."""

import os
import stat
from collections.abc import Iterator
from itertools import islice

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
from tpuctl.operations.stage.plan.filters import Selection, selection
from tpuctl.operations.stage.plan.names import (
    OWN_PREFIX,
    folder_prefix,
    single_key,
    why_no_file,
    why_no_key,
)
from tpuctl.operations.stage.plan.walk import FoundFile, walk_files
from tpuctl.store.gcs.bulk import BulkBucket, ObjectInfo

_AT_ONCE = 500


def plan_push(
    source: str, bulk: BulkBucket, prefix: str, checksums: ChecksumCache, scope: TransferScope
) -> TransferPlan:
    """Files under `source` against the objects under `prefix`.

    Raises NotFoundError when there is no source, and when there is no bucket; LocalIOError,
    and UsageError for a pipe or a device: it has no size to plan with.
    """
    root = os.path.abspath(source)
    if os.path.isdir(root):
        return _PushPlan(root, folder_prefix(prefix), checksums, scope).made(bulk)
    if scope.delete:
        raise UsageError(f"--delete needs a directory, and {source} is none")
    identity = _identity(source, root)
    root = os.path.realpath(root)
    key = single_key(prefix, os.path.basename(os.path.abspath(source)))
    plan = _PushPlan(os.path.dirname(root), "", checksums, scope)
    if why := why_no_key(key):
        return TransferPlan(plan.root, (), (TransferRefusal(source, why),))
    plan.add(key, (os.path.basename(root), os.path.basename(root), identity), bulk.head(key))
    if plan.plan.refusals:
        raise LocalIOError(f"cannot read {source}: {plan.plan.refusals[0].why}")
    return plan.plan


def _identity(source: str, path: str) -> FileIdentity:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(
            f"there is no file or directory {source}", hint="check the path"
        ) from error
    except OSError as error:
        raise LocalIOError(f"cannot read {source}: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        hint = f"pipe it: cat {source} | tpuctl data push - gs://BUCKET/NAME"
        raise UsageError(f"{source} is no regular file", hint=hint)
    return FileIdentity.of(found)


class _PushPlan:
    """A plan while it is made."""

    def __init__(
        self, root: str, prefix: str, checksums: ChecksumCache, scope: TransferScope
    ) -> None:
        self.root = root
        self._prefix = prefix
        self._checksums = checksums
        self._scope = scope
        self._transfers: list[Transfer] = []
        self._refusals: list[TransferRefusal] = []
        self._deletions: list[PlannedDeletion] = []

    @property
    def plan(self) -> TransferPlan:
        """What was found so far."""
        return TransferPlan(self.root, self._transfers, self._refusals, self._deletions)

    def made(self, bulk: BulkBucket) -> TransferPlan:
        """Walk both sides, in the order of names."""
        chosen = selection(self.root, self._scope.include, self._scope.exclude)
        listing = bulk.list(self._prefix)  # which begins while the directory is walked
        joined = _join_sides(self._found(chosen), self._prefix, listing)
        while some := list(islice(joined, _AT_ONCE)):
            self._checksums.expect(file[2] for file, listed in some if file and listed)
            for file, listed in some:
                if file is not None:
                    self.add(self._prefix + file[0], file, listed)
                elif listed is not None and self._scope.delete:
                    self._delete(listed, chosen)
        return self.plan

    def add(self, key: str, file: FoundFile, listed: ObjectInfo | None) -> None:
        """A file, and the object that is there."""
        _, actual, identity = file
        value = None
        path = f"{self.root}/{actual}"
        try:
            if listed is not None and listed.size_bytes == identity.size_bytes:
                value = self._checksums.of(path, identity)
            elif not os.access(path, os.R_OK):
                self._refusals.append(TransferRefusal(path, "Permission denied"))
                return
        except OSError as error:
            self._refusals.append(TransferRefusal(path, str(error.strerror)))
            return
        except TpuctlError as error:
            self._refusals.append(TransferRefusal(path, str(error).removeprefix(f"{path} ")))
            return
        is_current = listed is not None and value is not None and value == listed.crc32c
        self._transfers.append(
            Transfer(
                key,
                actual,
                identity.size_bytes,
                listed.generation if listed else 0,
                is_current,
                value,
                None if is_current else identity,
            )
        )

    def _found(self, chosen: Selection) -> list[FoundFile]:
        found = []
        for one in walk_files(self.root, chosen):
            if isinstance(one, TransferRefusal):
                self._refusals.append(TransferRefusal(os.path.join(self.root, one.name), one.why))
            elif why := why_no_key(self._prefix + one[0]):
                self._refusals.append(TransferRefusal(os.path.join(self.root, one[0]), why))
            else:
                found.append(one)
        found.sort()
        return found

    def _delete(self, listed: ObjectInfo, chosen: Selection) -> None:
        name = listed.key[len(self._prefix) :]
        # What no file could have been was not sent by a push, and is not a push's to delete.
        if (
            not listed.key.startswith(OWN_PREFIX)
            and why_no_file(name) is None
            and chosen.matches(name)
        ):
            self._deletions.append(
                PlannedDeletion(listed.key, name, listed.size_bytes, listed.generation)
            )


def _join_sides(
    found: list[FoundFile], prefix: str, listed: Iterator[ObjectInfo]
) -> Iterator[tuple[FoundFile | None, ObjectInfo | None]]:
    """Both sides of each name; both come in the order of names."""
    there = next(listed, None)
    for file in found:
        key = prefix + file[0]
        while there is not None and there.key < key:
            yield None, there
            there = next(listed, None)
        if there is not None and there.key == key:
            yield file, there
            there = next(listed, None)
        else:
            yield file, None
    while there is not None:
        yield None, there
        there = next(listed, None)
