"""A file that grows under a temporary name until it is whole, verified, and gets its own.

Standard library only, Python 3.8.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import Any, NamedTuple

from tpuctl.agent.data import target_tree

BLOCK_BYTES = 256 * 1024


class WantedFile(NamedTuple):
    """A file whose content is known before it comes; `mode` is its permission bits."""

    path: str
    size_bytes: int
    sha256: str
    mode: int


class PartialFile:
    """A file under its temporary name; one that is not finished is removed."""

    def __init__(self, parent: int, name: str, begun: dict[str, Any]) -> None:
        """`begun` is the frame F; `parent` is the open directory, which the caller keeps."""
        self.path, self.name = begun["path"], name
        self.mode, self.mtime_ns = begun["mode"], begun["mtime_ns"]
        self.reached = 0
        self.digest = hashlib.sha256()
        self.temporary, self.descriptor = self.open_temporary(parent)
        self.parent = os.dup(parent)

    def open_temporary(self, parent: int) -> tuple[str, int]:
        """A name that nobody else has, and the new file of that name."""
        name = new_partial_name()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return name, os.open(name, flags, 0o600, dir_fd=parent)

    def write(self, block: bytes) -> None:
        """Add bytes at the end."""
        target_tree.write_all(self.descriptor, block, self.reached)
        self.digest.update(block)
        self.reached += len(block)

    def skip(self, payload: bytes, size_bytes: int) -> None:
        """Add a hole of that size; its frame is hashed in place of its bytes."""
        self.digest.update(payload)
        self.reached += size_bytes

    def publish(self, sha256: str) -> None:
        """Verify it, and give it its length, its mode and its name. Raises Refused, OSError."""
        if self.digest.hexdigest() != sha256:
            self.remove()
            raise target_tree.RefusedNameError("it changed while it was sent")
        os.ftruncate(self.descriptor, self.reached)
        self.set_attributes()
        os.rename(self.temporary, self.name, src_dir_fd=self.parent, dst_dir_fd=self.parent)
        self.close()

    def set_attributes(self) -> None:
        """Give it the mode and the time that it had where it comes from."""
        os.fchmod(self.descriptor, self.mode & 0o777)
        os.utime(self.descriptor, ns=(self.mtime_ns, self.mtime_ns))

    def remove(self) -> None:
        """Remove its temporary name."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.temporary, dir_fd=self.parent)

    def abandon(self) -> None:
        """Give up before it is whole."""
        self.remove()
        self.close()

    def close(self) -> None:
        """Close its descriptors."""
        os.close(self.descriptor)
        os.close(self.parent)


class ResumableFile(PartialFile):
    """A file of known content, locked; what arrived of it stays for the next run."""

    def __init__(
        self, parent: int, name: str, begun: dict[str, Any], wanted: WantedFile, lock_s: float
    ) -> None:
        """Go on at the offset of `begun`; waits `lock_s` seconds for another process."""
        self.wanted, self.lock_s = wanted, lock_s
        super().__init__(parent, name, {**begun, "mode": wanted.mode})
        with os.fdopen(os.dup(self.descriptor), "rb") as file:
            self.digest = digest_of(file, begun["offset"])
        self.reached = begun["offset"]

    def open_temporary(self, parent: int) -> tuple[str, int]:
        """The file that an earlier run left of the same content, or a new one."""
        name = resumable_name(self.name, self.wanted)
        return name, target_tree.open_locked(parent, name, self.lock_s)

    def publish(self, _sha256: str) -> None:
        """Verify it as a whole, make it durable, and give it its name. Raises Refused, OSError."""
        super().publish(self.wanted.sha256)

    def set_attributes(self) -> None:
        """Give it the mode as far as the umask allows."""
        os.fchmod(self.descriptor, 0o600 | (self.mode & 0o777 & ~umask()))
        os.fsync(self.descriptor)

    def abandon(self) -> None:
        """Leave what arrived."""
        self.close()


def missing_offset(directory: int, name: str, wanted: WantedFile) -> int | None:
    """Where the bytes that are missing begin; None when the file is there. Refused, OSError."""
    descriptor = target_tree.open_existing(directory, name)
    if descriptor is not None:
        with os.fdopen(descriptor, "rb") as file:
            is_as_long = os.fstat(descriptor).st_size == wanted.size_bytes
            if is_as_long and digest_of(file, wanted.size_bytes).hexdigest() == wanted.sha256:
                return None
    try:
        begun = os.lstat(resumable_name(name, wanted), dir_fd=directory).st_size
    except FileNotFoundError:
        return 0
    return begun if begun <= wanted.size_bytes else 0


def digest_of(file: Any, size_bytes: int) -> Any:
    """A running SHA-256 of the first bytes of an open file."""
    total = hashlib.sha256()
    file.seek(0)
    while size_bytes:
        block = file.read(min(BLOCK_BYTES, size_bytes))
        if not block:
            break
        total.update(block)
        size_bytes -= len(block)
    return total


def resumable_name(name: str, wanted: WantedFile) -> str:
    """The temporary name of a file of known content."""
    return target_tree.unfinished_name(name, wanted.sha256[:24])


def new_partial_name() -> str:
    """A temporary name that nobody else has."""
    return target_tree.PARTIAL_PREFIX + os.urandom(8).hex()


def umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
