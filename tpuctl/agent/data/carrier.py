"""Files to and from this worker over the SSH connection itself: one stream of their bytes.

Both ends know the size and the SHA-256 of every file before its bytes come, so that the stream
needs no frames. Standard library only, Python 3.8.
"""

from __future__ import annotations

import hashlib
import os
import select
import sys
from typing import NamedTuple

from tpuctl.agent.data import tree
from tpuctl.agent.data.report import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

BLOCK_BYTES = 256 * 1024
SILENCE_S = 60.0
"""After that nobody is at the other end any more."""


class File(NamedTuple):
    """A file that is sent here; `mode` is its permission bits."""

    path: str
    size_bytes: int
    sha256: str
    mode: int


def receive(manifest: Mapping[str, Any]) -> int:
    """Write the files that are not here yet; their bytes come on standard input, in order."""
    files = [File(*row) for row in manifest["files"]]
    target = tree.Tree(tree.at_home(manifest["target"]))
    refused = tree.refusals(each.path for each in files)
    needed = []
    for index, each in enumerate(files):
        try:
            if each.path in refused:
                raise tree.Refused(refused[each.path])
            offset = missing(target, each)
            if offset is not None:
                needed.append((index, offset))
        except (tree.Refused, OSError) as error:
            refused[each.path] = reason(error)
            say(failed=each.path, why=reason(error))
    say(need=needed)
    taken = [take(target, files[index], offset) for index, offset in needed]
    os.fsync(target.root)
    return 0 if all(taken) and not refused else 1


def missing(target: tree.Tree, file: File) -> int | None:
    """Where the bytes that are wanted begin; None when the file is here. Refused, OSError."""
    with target.parent(file.path) as (directory, name):
        descriptor = tree.present(directory, name)
        if descriptor is not None:
            with os.fdopen(descriptor, "rb") as found:
                is_as_long = os.fstat(descriptor).st_size == file.size_bytes
                if is_as_long and digest(found, file.size_bytes).hexdigest() == file.sha256:
                    return None
        try:
            begun = os.lstat(temporary(name, file), dir_fd=directory).st_size
        except FileNotFoundError:
            return 0
        return begun if begun <= file.size_bytes else 0


def take(target: tree.Tree, file: File, offset: int) -> bool:
    """Write one file from the stream; False, and said, when it could not be."""
    stream = Stream(file.size_bytes - offset)
    try:
        with target.parent(file.path) as (directory, name):
            with tree.unfinished(directory, temporary(name, file)) as descriptor:
                try:
                    write(file, descriptor, offset, stream)
                except tree.Refused:
                    os.unlink(temporary(name, file), dir_fd=directory)
                    raise
                os.rename(temporary(name, file), name, src_dir_fd=directory, dst_dir_fd=directory)
            os.fsync(directory)
            tree.sweep(directory, {tree.family(name)})
    except (tree.Refused, OSError) as error:
        stream.skip()
        say(failed=file.path, why=reason(error))
        return False
    say(taken=file.path)
    return True


def write(file: File, descriptor: int, offset: int, stream: Stream) -> None:
    """Fill a temporary file to its end, and verify it. Refused, OSError."""
    with os.fdopen(os.dup(descriptor), "r+b") as opened:
        total = digest(opened, offset)
        for block in stream:
            total.update(block)
            opened.write(block)
        opened.truncate()
        opened.flush()
        os.fchmod(descriptor, 0o600 | (file.mode & 0o777 & ~umask()))
        os.fsync(descriptor)
    if total.hexdigest() != file.sha256:
        raise tree.Refused("it changed while it was sent")


class Stream:
    """A known number of bytes of standard input, in blocks; its end before that ends us."""

    def __init__(self, size_bytes: int) -> None:
        self.left = size_bytes

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> bytes:
        if not self.left:
            raise StopIteration
        is_heard = select.select([0], [], [], SILENCE_S)[0]
        block = os.read(0, min(BLOCK_BYTES, self.left)) if is_heard else b""
        if not block:
            sys.exit("the other end is gone")
        self.left -= len(block)
        return block

    def skip(self) -> None:
        """Read on to where the next file begins."""
        for _ in self:
            pass


def send(manifest: Mapping[str, Any]) -> int:
    """Write files to standard output, one after the other, each from an offset to its size."""
    root = tree.at_home(manifest["root"])
    for path, offset, size_bytes in manifest["files"]:
        with (root / path).open("rb") as file:
            file.seek(offset)
            while offset < size_bytes:
                block = file.read(min(BLOCK_BYTES, size_bytes - offset))
                if not block:
                    sys.exit(f"{path or root} became shorter while it was sent")
                sys.stdout.buffer.write(block)
                offset += len(block)
    sys.stdout.buffer.flush()
    return 0


def digest(file: Any, size_bytes: int) -> Any:
    """A running SHA-256 of the first bytes of a file, which then stands behind them."""
    total = hashlib.sha256()
    file.seek(0)
    while size_bytes:
        block = file.read(min(BLOCK_BYTES, size_bytes))
        if not block:
            break
        total.update(block)
        size_bytes -= len(block)
    return total


def temporary(name: str, file: File) -> str:
    """Where it grows; named by what it will hold."""
    return tree.unfinished_name(name, file.sha256[:24])


def umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def reason(error: Exception) -> str:
    """Why a file is not here."""
    if isinstance(error, OSError):
        return f"cannot write: {error.strerror or error}"
    return str(error)
