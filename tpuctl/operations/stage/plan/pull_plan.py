"""What a pull is going to do: the objects under a prefix against the files of a directory."""

import os
import stat
from collections.abc import Iterable

from tpuctl.errors import LocalIOError, NotFoundError, TpuctlError, UsageError
from tpuctl.models.transfer import (
    FileIdentity,
    PlannedDeletion,
    Transfer,
    TransferPlan,
    TransferRefusal,
    TransferScope,
)
from tpuctl.operations.stage.plan import names
from tpuctl.operations.stage.plan.checksum_cache import ChecksumCache
from tpuctl.operations.stage.plan.walk import IGNORE_FILE, Selection, selection, walk_files
from tpuctl.store.gcs.bulk import BulkBucket, ObjectInfo


def plan_pull(
    bulk: BulkBucket, prefix: str, target: str, checksums: ChecksumCache, scope: TransferScope
) -> TransferPlan:
    """Plan to copy the objects under `prefix`, or the one of that name, to files under `target`.

    Raises NotFoundError when there is no object, UsageError, LocalIOError.
    """
    single = bulk.head(prefix) if prefix and not prefix.endswith("/") else None
    root = os.path.abspath(target)
    if single is None:
        return _plan_folder(bulk, names.folder_prefix(prefix), _PullPlanner(root, checksums, scope))
    if scope.delete:
        raise UsageError(f"--delete needs a directory, and {bulk.url}/{prefix} is an object")
    name = prefix.rpartition("/")[2]
    if not (target.endswith("/") or os.path.isdir(root)):
        root, name = os.path.split(root)
    planner = _PullPlanner(root, checksums, scope)
    planner.add_all({name: single})
    return planner.plan


def _plan_folder(bulk: BulkBucket, prefix: str, planner: "_PullPlanner") -> TransferPlan:
    chosen = selection(planner.plan.root, planner.scope)
    entries: dict[str, ObjectInfo] = {}
    is_empty = True
    for entry in bulk.list(prefix):
        if not names.is_data(entry.key, entry.size_bytes, prefix):
            continue
        is_empty = False
        name = entry.key[len(prefix) :]
        if chosen.matches(name):
            entries[name] = entry
    if is_empty:
        raise NotFoundError(f"nothing is under {bulk.url}/{prefix}", hint="run: tpuctl data list")
    planner.add_all(entries)
    if planner.scope.delete:
        planner.plan_deletions(entries, chosen, keep="" if prefix else names.OWN_PREFIX)
    return planner.plan


class _PullPlanner:
    """Builds the plan of a pull from the objects of a bucket and the files of a directory."""

    def __init__(self, root: str, checksums: ChecksumCache, scope: TransferScope) -> None:
        self.plan = TransferPlan(root)
        self.scope = scope
        self._checksums = checksums
        self._met: set[tuple[int, int]] = set()
        self._directories: dict[str, str | None] = {"": None}

    def add_all(self, entries: dict[str, ObjectInfo]) -> None:
        """Compare each object with the file of its name; refuse what cannot become one."""
        refused = {refusal.name: refusal.why for refusal in self._unrepresentable(entries)}
        for name, entry in entries.items():
            why = refused.get(name) or self._add(name, entry)
            if why:
                self.plan.refusals.append(TransferRefusal(entry.key, why))

    def plan_deletions(
        self, entries: dict[str, ObjectInfo], chosen: Selection, *, keep: str
    ) -> None:
        """Plan the removal of regular files that have no object.

        Files whose names begin with `keep` stay ("": none): their objects were not listed.
        """
        if not os.path.isdir(self.plan.root):
            return
        for found in walk_files(self.plan.root, chosen, follow=False):
            if isinstance(found, TransferRefusal):
                continue  # no regular file: none of ours
            name, _, identity = found
            has_object = name in entries or identity[:2] in self._met
            if has_object or name == IGNORE_FILE or (keep and name.startswith(keep)):
                continue
            path, size_bytes = self.plan.path(name), identity.size_bytes
            self.plan.deletions.append(PlannedDeletion(path, name, size_bytes, identity=identity))

    def _unrepresentable(self, entries: Iterable[str]) -> Iterable[TransferRefusal]:
        possible = []
        for name in entries:
            if why := names.why_no_file(name):
                yield TransferRefusal(name, why)
            else:
                possible.append(name)
        yield from names.directory_conflicts(possible)
        if names.can_clash(possible):
            try:
                fold = names.folding_of(_existing(self.plan.root))
            except OSError as error:
                raise LocalIOError(
                    f"cannot write below {self.plan.root}: {error.strerror}"
                ) from error
            yield from names.same_file_conflicts(possible, fold)

    def _add(self, name: str, entry: ObjectInfo) -> str | None:
        """Plan the transfer of an object; returns why it is refused, or None."""
        if why := self._why_closed(name.rpartition("/")[0]):
            return why
        path = self.plan.path(name)
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            is_current = False
        except OSError as error:
            return str(error.strerror)
        else:
            kind = stat.S_IFMT(status.st_mode)
            if kind != stat.S_IFREG:
                return _OBSTACLES.get(kind, "not a regular file stands in the way")
            self._met.add((status.st_dev, status.st_ino))
            is_current = self._is_current(path, FileIdentity.of(status), entry)
        self.plan.transfers.append(
            Transfer(entry.key, name, entry.size_bytes, entry.generation, is_current, entry.crc32c)
        )
        return None

    def _is_current(self, path: str, identity: FileIdentity, entry: ObjectInfo) -> bool:
        if identity.size_bytes != entry.size_bytes:
            return False
        try:
            return self._checksums.of(path, identity) == entry.crc32c
        except (OSError, TpuctlError):
            return False  # it is fetched again, or the attempt says what is the matter

    def _why_closed(self, directory: str) -> str | None:
        """Why nothing can be written in a directory of the target, or None."""
        if directory not in self._directories:
            above = self._why_closed(directory.rpartition("/")[0])
            self._directories[directory] = above or _why_no_directory(self.plan.path(directory))
        return self._directories[directory]


_OBSTACLES = {
    stat.S_IFLNK: "a symbolic link stands in the way",
    stat.S_IFDIR: "a file and a directory of the same name",
}
"""Why a file cannot replace what has its name, by the type of that."""


def _why_no_directory(path: str) -> str | None:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return None  # not there yet, or the attempt says what is the matter
    if stat.S_ISLNK(mode):
        return _OBSTACLES[stat.S_IFLNK]
    return None if stat.S_ISDIR(mode) else _OBSTACLES[stat.S_IFDIR]


def _existing(directory: str) -> str:
    """The directory, or the nearest one above it that exists."""
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    return directory
