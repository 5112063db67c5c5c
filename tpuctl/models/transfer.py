"""Copies between this machine and Cloud Storage: planned first, then done."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Transfer:
    """One object and one file; `generation` is what the plan saw in the bucket (0: nothing)."""

    key: str
    path: Path
    size_bytes: int
    generation: int
    is_current: bool
    """Both sides hold the same bytes already: nothing is sent."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An object or file that is not copied, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a copy is going to do."""

    transfers: tuple[Transfer, ...]
    refusals: tuple[Refusal, ...] = ()

    @property
    def to_send(self) -> tuple[Transfer, ...]:
        """What is not there yet."""
        return tuple(one for one in self.transfers if not one.is_current)

    @property
    def size_bytes(self) -> int:
        """Bytes to send."""
        return sum(one.size_bytes for one in self.to_send)


@dataclass(frozen=True, slots=True)
class Sent:
    """One transfer is over; `error` says why it failed, when it did."""

    transfer: Transfer
    error: str | None = None
