"""What became of a copy on one worker."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class DeliveryState(StrEnum):
    """How a copy to or from a worker ended."""

    DONE = "DONE"
    FAILED = "FAILED"
    LOST = "LOST"
    """The worker could not be reached, or went away."""


class Meter(Protocol):
    """Counts the files and bytes of a copy."""

    def expect(self, objects: int, size_bytes: int) -> None:
        """Add what is still to be copied."""

    def advance(self, size_bytes: int) -> None:
        """Count bytes that have arrived."""

    def finished(self) -> None:
        """Count a file that has arrived or failed."""


@dataclass(frozen=True, slots=True)
class DeliveryFailure:
    """A file that was not copied, and why; `errno` is 0 when there is none."""

    path: str
    why: str
    errno: int = 0


@dataclass(frozen=True, slots=True)
class Delivery:
    """The result of a copy to or from one worker."""

    worker_id: int
    state: str = DeliveryState.DONE
    objects_copied: int = 0
    bytes_copied: int = 0
    objects_skipped: int = 0
    failures: tuple[DeliveryFailure, ...] = ()
    error: str | None = None
    """What ended it, or the first failure."""
