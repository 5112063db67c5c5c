"""Copies between this machine and Cloud Storage: planned first, then done, told as events."""

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from tpuctl.errors import TpuctlError


class FileIdentity(NamedTuple):
    """The fields of stat that differ between two versions of a file."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "FileIdentity":
        """The identity of a file from its stat result."""
        return cls(
            status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        )

    def holds_what(self, other: "FileIdentity") -> bool:
        """Whether both are the same bytes; new links and modes do not count."""
        return self[:4] == other[:4]


class Transfer(NamedTuple):
    """A copy of one object to one file, or of one file to one object."""

    key: str
    name: str
    """The file, below the plan's root, with / between its parts."""
    size_bytes: int
    generation: int
    """Pull: the one to fetch. Push: the one to replace, 0 when there is nothing."""
    is_current: bool
    """Both sides hold the same bytes already: nothing is sent."""
    crc32c: int | None = None
    """The CRC-32C of the bytes to copy; None when the plan did not need it."""
    identity: FileIdentity | None = None
    """Push: the file as the plan saw it."""


@dataclass(frozen=True, slots=True)
class TransferScope:
    """The files that take part, by patterns as in .gitignore, and whether others are deleted."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    delete: bool = False


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """The options of a copy; `is_sharded`: each worker of a slice gets its part."""

    scope: TransferScope
    dry_run: bool = False
    is_sharded: bool = False


class PlannedDeletion(NamedTuple):
    """An object or file that only the target has; it is removed unless it changed since."""

    key: str
    name: str
    size_bytes: int
    generation: int = 0
    identity: FileIdentity | None = None


class TransferRefusal(NamedTuple):
    """An object or file that is not copied, and why."""

    name: str
    why: str


@dataclass
class TransferPlan:
    """What a copy is going to do; `root` is the local directory, absolute.

    Whoever plans appends; `to_send` and `size_bytes` are for the time when the plan is complete.
    """

    root: str
    transfers: list[Transfer] = field(default_factory=list)
    refusals: list[TransferRefusal] = field(default_factory=list)
    deletions: list[PlannedDeletion] = field(default_factory=list)

    @cached_property
    def to_send(self) -> list[Transfer]:
        """The transfers whose bytes are not at the target yet."""
        return [transfer for transfer in self.transfers if not transfer.is_current]

    @cached_property
    def size_bytes(self) -> int:
        """The bytes of all transfers to send."""
        return sum(transfer.size_bytes for transfer in self.to_send)

    def path(self, name: str) -> str:
        """The absolute path of the file of that name."""
        return os.path.join(self.root, name)


class TransferProgress(NamedTuple):
    """So many more bytes have been copied; a negative number when some must be sent again."""

    size_bytes: int


class TransferFinished(NamedTuple):
    """A transfer or a deletion is over; `error` says why it failed, when it did."""

    subject: Transfer | PlannedDeletion
    error: TpuctlError | None = None
    was_there: bool = False
    """Somebody else brought the same bytes meanwhile."""


class TransferNotice(NamedTuple):
    """A text that people should see about a copy that succeeded."""

    text: str


TransferEvent = TransferProgress | TransferFinished | TransferNotice
