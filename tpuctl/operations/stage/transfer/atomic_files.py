"""Files that appear whole or not at all, below a directory that is never left.

Every directory on the way is opened beneath the one before without following links, so a link that
somebody puts there, at whatever moment, leads nowhere.
"""

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from tpuctl.agent.data import target_tree
from tpuctl.durable_directories import make_durable
from tpuctl.errors import LocalIOError, LockedError
from tpuctl.models.transfer import FileIdentity
from tpuctl.operations.stage.transfer.pool import to_tpuctl_error

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_JOURNAL = ".ranges"
_JOURNAL_BYTES = 4 * 1024 * 1024
"""More than there is to note of 5 TiB."""


class TargetDirectory:
    """A local directory that objects are written below; made when it is not there."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._changed: dict[str, set[str]] = {}
        """Directories to sync, and the unfinished names that may be left in each."""
        self._turn = threading.Lock()
        try:
            make_durable(Path(root))
            self._descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise _path_error(error, root) from error

    def __enter__(self) -> "TargetDirectory":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    @contextlib.contextmanager
    def directory(self, name: str, *, create: bool = False) -> Iterator[int]:
        """Open a directory by its path below the root, "" for the root; yields a descriptor."""
        current = os.dup(self._descriptor)
        try:
            walked = ""
            for part in name.split("/") if name else ():
                below = self._below(current, part, walked, create=create)
                os.close(current)
                current, walked = below, f"{walked}/{part}" if walked else part
            yield current
        finally:
            os.close(current)

    def free_bytes(self) -> int:
        """How much a user may still write to the file system of the directory."""
        found = os.fstatvfs(self._descriptor)
        return found.f_bavail * found.f_frsize

    def kept_bytes(self, name: str, version: str) -> int:
        """How much of the disk the unfinished file of that name and version has already."""
        directory, _, base = name.rpartition("/")
        temporary = target_tree.unfinished_name(base, version)
        with contextlib.suppress(OSError, LocalIOError), self.directory(directory) as parent:
            return os.stat(temporary, dir_fd=parent, follow_symlinks=False).st_blocks * 512
        return 0

    def changed(self, directory: str, unfinished: str = "") -> None:
        """Note a directory to sync, and a prefix of unfinished names to remove from it."""
        with self._turn:
            self._changed.setdefault(directory, set()).add(unfinished)

    def sync(self) -> None:
        """Make the names durable, once per directory, and remove what older attempts left."""
        try:
            for directory, unfinished in self._changed.items():
                with self.directory(directory) as descriptor:
                    os.fsync(descriptor)
                    if any(unfinished):
                        target_tree.sweep(descriptor, unfinished)
        except OSError as error:
            raise to_tpuctl_error(error) from error
        self._changed.clear()

    def _below(self, current: int, part: str, walked: str, *, create: bool) -> int:
        try:
            try:
                return os.open(part, _DIRECTORY, dir_fd=current)
            except FileNotFoundError:
                if not create:
                    raise
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=current)
                self.changed(walked)
            return os.open(part, _DIRECTORY, dir_fd=current)
        except OSError as error:
            raise _path_error(error, os.path.join(self.root, walked, part)) from error  # noqa: PTH118


class UnfinishedFile:
    """A locked file under a temporary name, which resumes what an earlier attempt left."""

    def __init__(self, target: TargetDirectory, name: str, version: str) -> None:
        """Open the unfinished file of that name and version, or create it.

        Raises LockedError when another process writes it, LocalIOError.
        """
        self._target = target
        self._directory, _, self._name = name.rpartition("/")
        self._temporary = target_tree.unfinished_name(self._name, version)
        self.path = os.path.join(target.root, name)  # noqa: PTH118
        with self._translated(), target.directory(self._directory, create=True) as parent:
            try:
                self.descriptor = target_tree.open_locked(parent, self._temporary, lock_s=0)
            except target_tree.RefusedNameError as error:
                raise LockedError(f"another process is writing {self.path}") from error

    def close(self) -> None:
        """Close the file; it stays for the next attempt."""
        # A thread that was left behind must not write to whatever gets the number next.
        descriptor, self.descriptor = self.descriptor, -1
        os.close(descriptor)

    def write_at(self, data: bytes, offset: int) -> None:
        """Write all bytes at an offset. Raises LocalIOError."""
        with self._translated():
            target_tree.write_all(self.descriptor, data, offset)

    def settle(self, start: int, end: int) -> None:
        """Start to write a complete range to the disk, so that the final sync takes less time."""
        if hasattr(os, "posix_fadvise"):
            # On Linux this starts to write what is dirty, and returns.
            os.posix_fadvise(self.descriptor, start, end - start, os.POSIX_FADV_DONTNEED)

    def reserve(self, size_bytes: int) -> None:
        """Reserve disk space for the whole file. Raises LocalIOError when it is too little."""
        with self._translated():
            if hasattr(os, "posix_fallocate") and size_bytes:
                os.posix_fallocate(self.descriptor, 0, size_bytes)

    def cut(self, size_bytes: int) -> None:
        """Cut the file to at most that size. Raises LocalIOError."""
        with self._translated():
            if os.fstat(self.descriptor).st_size > size_bytes:
                os.ftruncate(self.descriptor, size_bytes)

    def journal(self) -> list[str]:
        """The lines of the journal beside the file."""
        with contextlib.suppress(FileNotFoundError), self._journal_file(os.O_RDONLY) as journal:
            return os.pread(journal, _JOURNAL_BYTES, 0).decode("ascii", "replace").splitlines()
        return []

    def note(self, line: str) -> None:
        """Add a line to the journal beside the file."""
        with self._translated(), self._journal_file(os.O_WRONLY | os.O_APPEND | os.O_CREAT) as file:
            os.write(file, f"{line}\n".encode("ascii"))

    def become(self) -> None:
        """Give the file its name after its bytes are durable. Raises LocalIOError."""
        with self._translated(), self._target.directory(self._directory) as parent:
            os.fsync(self.descriptor)
            os.rename(self._temporary, self._name, src_dir_fd=parent, dst_dir_fd=parent)
            self._forget(parent, self._temporary + _JOURNAL)
        self._target.changed(self._directory, target_tree.unfinished_prefix(self._name))

    def discard(self) -> None:
        """Remove the file and its journal."""
        with (
            contextlib.suppress(OSError, LocalIOError),
            self._target.directory(self._directory) as parent,
        ):
            self._forget(parent, self._temporary)
            self._forget(parent, self._temporary + _JOURNAL)

    def _forget(self, parent: int, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)

    @contextlib.contextmanager
    def _journal_file(self, flags: int) -> Iterator[int]:
        with self._target.directory(self._directory) as parent:
            name = self._temporary + _JOURNAL
            descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=parent)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _path_error(error, self.path) from error


def remove_file(target: TargetDirectory, name: str, identity: FileIdentity) -> bool:
    """Remove a file unless it changed since it was seen; returns whether it is gone."""
    directory, _, base = name.rpartition("/")
    with target.directory(directory) as parent:
        try:
            current = FileIdentity.of(os.stat(base, dir_fd=parent, follow_symlinks=False))
        except FileNotFoundError:
            return True
        if not current.holds_what(identity):
            return False
        os.unlink(base, dir_fd=parent)
    target.changed(directory)
    return True


def remove_empty(target: TargetDirectory, directory: str) -> None:
    """Remove a directory and those above it while they are empty; never the root."""
    with contextlib.suppress(OSError, LocalIOError):
        while directory:
            above, _, base = directory.rpartition("/")
            with target.directory(above) as parent:
                os.rmdir(base, dir_fd=parent)
            directory = above


_WORDS = {
    errno.ELOOP: "a symbolic link stands in the way",
    errno.ENOTDIR: "a file or a link stands where a directory must be",
    errno.EISDIR: "a directory of that name stands there",
}


def _path_error(error: OSError, path: str) -> LocalIOError:
    why = _WORDS.get(error.errno or 0, error.strerror or str(error))
    return LocalIOError(f"cannot write {path}: {why}")
