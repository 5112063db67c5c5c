"""Files below one directory of a worker: names that leave it or pass a link are refused.

Every step down is taken from an open directory and follows no link, so that nobody can move the
ground away. Standard library only, Python 3.8.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

PARTIAL_PREFIX = ".tpuctl-part-"
LOCK_S = 30.0
LOCK_POLL_S = 0.1
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FILE_MODE = 0o666


class RefusedNameError(Exception):
    """The name is not written; the text says why."""


def refusals(paths: Iterable[str]) -> dict[str, str]:
    """Path -> why it cannot be a file beneath a directory, given the others."""
    known = set(paths)
    found = {}
    for path in known:
        parts = path.split("/")
        if any(part in ("", ".", "..") for part in parts) or "\0" in path:
            found[path] = "the name would lead out of the target"
        elif any("/".join(parts[:depth]) in known for depth in range(1, len(parts))):
            found[path] = "a file and a directory of the same name"
        elif parts[-1].startswith(PARTIAL_PREFIX):
            found[path] = "the name is one of a file that is being written"
    return found


def open_target(path: str) -> int:
    """Open a directory of the command line, made when it is not there. Raises OSError."""
    os.makedirs(home_path(path), exist_ok=True)
    return os.open(home_path(path), DIRECTORY)


@contextlib.contextmanager
def open_parent(root: int, path: str) -> Iterator[tuple[int, str]]:
    """The open directory of a path below the root, and the last name. Raises Refused, OSError."""
    above, _, name = path.rpartition("/")
    descriptor = open_below(root, above)
    try:
        yield descriptor, name
    finally:
        os.close(descriptor)


def open_below(root: int, path: str) -> int:
    """Open a directory below the root by no link; what is missing on the way is made.

    Raises Refused, OSError.
    """
    descriptor = os.dup(root)
    for part in path.split("/") if path else ():
        try:
            below = enter_directory(descriptor, part)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def enter_directory(directory: int, name: str) -> int:
    """Open a directory by no link; it is made when it is not there. Raises Refused, OSError."""
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=directory)
            os.fsync(directory)
        return os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise RefusedNameError(obstacle(directory, name)) from error
        raise


def obstacle(directory: int, name: str) -> str:
    """The text about a name that should have been a directory."""
    mode = os.lstat(name, dir_fd=directory).st_mode
    if stat.S_ISLNK(mode):
        return "a symbolic link stands in the way"
    return "a file and a directory of the same name"


def open_existing(directory: int, name: str) -> int | None:
    """Open a regular file of that name; None where there is nothing. Raises RefusedNameError."""
    try:
        descriptor = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise RefusedNameError("a symbolic link stands in the way") from error
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise RefusedNameError("a file and a directory of the same name")


def open_locked(directory: int, name: str, lock_s: float = LOCK_S) -> int:
    """Open and lock a file that still has its name then; what an earlier run wrote is in it.

    Raises Refused after `lock_s` seconds.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        descriptor = os.open(name, flags, FILE_MODE, dir_fd=directory)
        try:
            wait_for_lock(descriptor, lock_s)
        except BaseException:
            os.close(descriptor)
            raise
        if is_named(descriptor, directory, name):
            return descriptor
        os.close(descriptor)


def is_named(descriptor: int, directory: int, name: str) -> bool:
    """Whether the file still has that name: who held the lock before may have renamed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(name, dir_fd=directory))
    except FileNotFoundError:
        return False


def unfinished_name(name: str, version: str) -> str:
    """The temporary name of a file until it is that version."""
    return f"{unfinished_prefix(name)}{version}"


def unfinished_prefix(name: str) -> str:
    """The beginning of all temporary names of a file."""
    return f"{PARTIAL_PREFIX}{sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}-"


def sweep(directory: int, families: set[str]) -> None:
    """Remove what earlier runs left of files that are whole now, unless somebody writes to it."""
    length = len(unfinished_prefix(""))
    for name in os.listdir(directory):
        if name.startswith(PARTIAL_PREFIX) and name[:length] in families:
            with contextlib.suppress(OSError):
                descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(name, dir_fd=directory)
                finally:
                    os.close(descriptor)


def wait_for_lock(descriptor: int, lock_s: float) -> None:
    """Hold a file's lock; who was killed a moment ago may still hold it. Raises Refused."""
    deadline = time.monotonic() + lock_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise RefusedNameError("another tpuctl is writing it") from None
            time.sleep(LOCK_POLL_S)
        else:
            return


def walk(root: Path) -> Iterator[tuple[str, Path]]:
    """(path below the root, path to open) of every regular file; the root itself has no name."""
    if root.is_file():
        yield "", root
        return
    for directory, below, names in os.walk(str(root), onerror=raise_unreadable):
        below.sort()
        for name in sorted(names):
            path = Path(directory, name)
            if stat.S_ISREG(path.lstat().st_mode) and not name.startswith(PARTIAL_PREFIX):
                yield path.relative_to(root).as_posix(), path


def raise_unreadable(error: OSError) -> None:
    """Raise the error: a directory that cannot be read must not look like an empty one."""
    raise error


def home_path(path: str) -> str:
    """A path of the command line on this worker: absolute, or below HOME."""
    return os.path.join(os.path.expanduser("~"), os.path.expanduser(path))


def write_all(descriptor: int, block: bytes, offset: int) -> None:
    """Write all bytes of a block at an offset. Raises OSError."""
    rest = memoryview(block)
    while rest:
        count = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[count:], offset + count
