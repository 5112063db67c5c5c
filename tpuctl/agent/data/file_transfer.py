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

from tpuctl.agent.data import target_tree
from tpuctl.agent.data.report import print_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

BLOCK_BYTES = 256 * 1024
SILENCE_S = 60.0
"""After that nobody is at the other end any more."""


class TransferFile(NamedTuple):
    """A file that is sent here; `mode` is its permission bits."""

    path: str
    size_bytes: int
    sha256: str
    mode: int


def receive(manifest: Mapping[str, Any]) -> int:
    """Write the files that are not here yet; their bytes come on standard input, in order."""
    files = [TransferFile(*row) for row in manifest["files"]]
    target = target_tree.TargetTree(target_tree.home_path(manifest["target"]))
    refused = target_tree.refusals(each.path for each in files)
    needed = []
    for index, each in enumerate(files):
        try:
            if each.path in refused:
                raise target_tree.RefusedNameError(refused[each.path])
            offset = missing_offset(target, each)
            if offset is not None:
                needed.append((index, offset))
        except (target_tree.RefusedNameError, OSError) as error:
            refused[each.path] = reason(error)
            print_event(failed=each.path, why=reason(error))
    print_event(need=needed)
    taken = [receive_file(target, files[index], offset) for index, offset in needed]
    os.fsync(target.root)
    return 0 if all(taken) and not refused else 1


def missing_offset(target: target_tree.TargetTree, file: TransferFile) -> int | None:
    """Where the bytes that are wanted begin; None when the file is here. Refused, OSError."""
    with target.parent(file.path) as (directory, name):
        descriptor = target_tree.open_existing(directory, name)
        if descriptor is not None:
            with os.fdopen(descriptor, "rb") as found:
                is_as_long = os.fstat(descriptor).st_size == file.size_bytes
                if is_as_long and digest(found, file.size_bytes).hexdigest() == file.sha256:
                    return None
        try:
            begun = os.lstat(temporary_name(name, file), dir_fd=directory).st_size
        except FileNotFoundError:
            return 0
        return begun if begun <= file.size_bytes else 0


def receive_file(target: target_tree.TargetTree, file: TransferFile, offset: int) -> bool:
    """Write one file from the stream; False, and said, when it could not be."""
    stream = StdinBlocks(file.size_bytes - offset)
    try:
        with target.parent(file.path) as (directory, name):
            with target_tree.open_unfinished(directory, temporary_name(name, file)) as descriptor:
                try:
                    write_file(file, descriptor, offset, stream)
                except target_tree.RefusedNameError:
                    os.unlink(temporary_name(name, file), dir_fd=directory)
                    raise
                os.rename(
                    temporary_name(name, file), name, src_dir_fd=directory, dst_dir_fd=directory
                )
            os.fsync(directory)
            target_tree.sweep(directory, {target_tree.unfinished_prefix(name)})
    except (target_tree.RefusedNameError, OSError) as error:
        stream.skip()
        print_event(failed=file.path, why=reason(error))
        return False
    print_event(taken=file.path)
    return True


def write_file(file: TransferFile, descriptor: int, offset: int, stream: StdinBlocks) -> None:
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
        raise target_tree.RefusedNameError("it changed while it was sent")


class StdinBlocks:
    """A known number of bytes of standard input, in blocks; its end before that ends us."""

    def __init__(self, size_bytes: int) -> None:
        self.left = size_bytes

    def __iter__(self) -> StdinBlocks:
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
    root = target_tree.home_path(manifest["root"])
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


def temporary_name(name: str, file: TransferFile) -> str:
    """Where it grows; named by what it will hold."""
    return target_tree.unfinished_name(name, file.sha256[:24])


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
