"""A step of a checkpoint directory as commands show it, whoever wrote it."""

from dataclasses import dataclass
from enum import StrEnum


class CheckpointKind(StrEnum):
    """The framework that wrote a step."""

    TPUCTL = "tpuctl"
    ORBAX = "orbax"
    DCP = "dcp"
    SAFETENSORS = "safetensors"


class StepState(StrEnum):
    """Whether a step can be restored, and if not, why."""

    COMPLETE = "COMPLETE"
    """All of it is there, by size, generation and checksum of every object."""
    UNSEALED = "UNSEALED"
    """Another framework says that it is complete; nothing says what its bytes were."""
    UNVERIFIED = "UNVERIFIED"
    """It was copied here: sizes and checksums fit, and nobody has read its bytes yet."""
    PARTIAL = "PARTIAL"
    CORRUPT = "CORRUPT"
    ROLLED_BACK = "ROLLED_BACK"


RESTORABLE_STATES = frozenset({StepState.COMPLETE, StepState.UNVERIFIED, StepState.UNSEALED})
"""What its own framework would restore."""


@dataclass(frozen=True, slots=True)
class StepView:
    """A step; a field is None where its writer does not say."""

    name: str
    """Its folder in the directory."""
    step: int | None
    kind: CheckpointKind
    state: StepState
    size_bytes: int
    committed_s: float | None
    """When its marker was written, by the store's clock."""
    save_s: float | None = None
    blocked_s: float | None = None
    """How long the program was kept waiting, of `save_s`."""
    attempt: int | None = None
    job: str = ""
    program: str = ""
    workers: int | None = None
    fence: int | None = None
    pinned: bool = False
    reason: str = ""
    """Why it is not COMPLETE."""

    @property
    def handle(self) -> str:
        """The name that people use: the number if it has one, else the folder's name."""
        return self.name if self.step is None else str(self.step)


@dataclass(frozen=True, slots=True)
class TensorView:
    """A tensor of a step; a field is None where it cannot be known."""

    name: str
    dtype: str | None
    shape: tuple[int, ...] | None
    norm: float | None = None
    """The square root of the sum of the squares of its finite elements."""
    nan_count: int | None = None
    inf_count: int | None = None
