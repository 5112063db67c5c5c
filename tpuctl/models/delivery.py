"""What became of a copy on one worker."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class DeliveryState(StrEnum):
    """How it ended."""

    DONE = "DONE"
    FAILED = "FAILED"
    LOST = "LOST"
    """The worker could not be reached, or went away."""


class Meter(Protocol):
    """Is told how far a copy is."""

    def advance(self, size_bytes: int) -> None:
        """So many more bytes are there."""

    def finished(self) -> None:
        """One object more is done with."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The verdict of one worker; `failures` names what is not there, and why."""

    worker_id: int
    state: str = DeliveryState.DONE
    objects_copied: int = 0
    bytes_copied: int = 0
    objects_skipped: int = 0
    failures: tuple[tuple[str, str], ...] = ()
    error: str | None = None
    """What ended it, or the first failure."""
