"""One row of a plan: how a model trains on slices of a type, what it takes and costs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tpuctl.operations.planning.compared_slices import ComparedSlice


class Fit(StrEnum):
    """Whether a program fits into the memory of a device, as far as the model can tell."""

    YES = "yes"
    TIGHT = "tight"
    """The value fits, the upper end of its interval does not."""
    NO = "no"


class Mark(StrEnum):
    """What a row is the best of, among those that fit and keep the limits."""

    CHEAPEST = "cheapest"
    FASTEST = "fastest"
    KNEE = "knee"


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """The step of the best sharding; seconds, bytes of one device; everything is modelled."""

    mesh: Mapping[str, int]
    remat: str
    accumulation_steps: int
    step_s: float
    step_low_s: float
    step_high_s: float
    bound: str
    terms: Mapping[str, float]
    hidden: Mapping[str, float]
    memory_bytes: float
    memory_high_bytes: float
    memory_kinds: Mapping[str, float]
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SpotRun:
    """A run on spot capacity: time with slices, without the wait for them."""

    days: float
    usd: float | None
    preemptions: float
    lost_share: float
    """The share of the days that is saves, steps done again and restarts."""
    save_every_s: float
    save_s: float
    save_bytes: float
    """What one save writes."""


@dataclass(frozen=True, slots=True)
class RunCost:
    """How long a whole run takes, and what it costs; None where no price is known."""

    days: float
    days_low: float
    days_high: float
    usd: float | None
    usd_reserved: float | None
    spot: SpotRun


@dataclass(frozen=True, slots=True)
class PlannedSlice:
    """A type of slice with the best way to train on it, or why there is none."""

    where: ComparedSlice
    fit: Fit
    why: str
    """Why it does not fit, or which limit it exceeds; else empty."""
    batch_sequences: int
    usable_bytes: float
    devices: int
    needed_bytes: float | None = None
    """What a device needs for it at least; None where no mesh was tried."""
    step: PlannedStep | None = None
    mfu: float | None = None
    tokens_per_s: float | None = None
    cost: RunCost | None = None
    least_compute_bound_batch: int | None = None
    """The smallest batch, in sequences, whose longest term is computing."""
    largest_batch: int | None = None
    """The largest batch, in sequences, that fits without accumulation."""
    is_within_limits: bool = True
    marks: tuple[Mark, ...] = field(default=())

    @property
    def is_possible(self) -> bool:
        """Whether it fits, for certain or by the value of the estimate."""
        return self.fit is not Fit.NO
