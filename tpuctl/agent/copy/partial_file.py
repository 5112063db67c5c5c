"""A file that grows under a temporary name until it is whole and gets its own.

Standard library only, Python 3.8.
"""

from __future__ import annotations

import contextlib
import os
import secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PARTIAL_PREFIX = ".tpuctl-part-"


class PartialFile:
    """A file under its temporary name."""

    def __init__(self, parent: int, name: str, found: dict[str, Any]) -> None:
        self.path, self.name = found["path"], name
        self.mode, self.mtime_ns = found["mode"], found["mtime_ns"]
        self.reached = 0
        self.temporary = new_partial_name()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self.descriptor = os.open(self.temporary, flags, 0o600, dir_fd=parent)
        self.parent = os.dup(parent)

    def publish(self) -> None:
        """Give it its length, its mode, its time and its name."""
        os.ftruncate(self.descriptor, self.reached)
        os.fchmod(self.descriptor, self.mode & 0o777)
        os.utime(self.descriptor, ns=(self.mtime_ns, self.mtime_ns))
        os.rename(self.temporary, self.name, src_dir_fd=self.parent, dst_dir_fd=self.parent)
        self.close()

    def discard(self) -> None:
        """Remove what there is of it."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.temporary, dir_fd=self.parent)
        self.close()

    def close(self) -> None:
        """Let go of it."""
        os.close(self.descriptor)
        os.close(self.parent)


def new_partial_name() -> str:
    """A new temporary name."""
    return PARTIAL_PREFIX + secrets.token_hex(8)


def write_all(descriptor: int, block: bytes, offset: int) -> None:
    """Write a block whole."""
    rest = memoryview(block)
    while rest:
        count = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[count:], offset + count
