"""What a person asks of a plan: a model, how it runs, on which slices, within which limits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_TOKENS = 1e17
MOST_SEQUENCE_TOKENS = 2**24
MOST_SEQUENCES = 2**24
MOST_BATCH_TOKENS = 2**36
MOST_SLICES = 1024
MOST_DAYS = 36500.0
MOST_USD = 1e12
MOST_SIDE = 2**24
"""Of a dimension of a model."""
MOST_REQUESTS_PER_S = 1e9
MOST_LATENCY_S = 3600.0

REMATS = ("none", "minimal", "full")
PRECISIONS = ("bf16", "int8", "fp8")
BITS = ("4", "8", "16", "32")
"""Of a weight, and of a number in the cache."""
FILLED = -1
"""An axis of a mesh that takes what the others leave, as trainers write it."""

OPTIMIZERS: Mapping[str, int] = {"adam": 8, "adam-bf16": 4, "adafactor": 0, "sgd": 0, "momentum": 4}
"""Optimizer -> bytes of its moments for one parameter; Adafactor keeps a row and a column."""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A public model by its name, or a shape with the fields of a Transformer; one of both."""

    name: str | None = None
    shape: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SliceChoice:
    """The slices that are compared; what is empty is not limited."""

    types: tuple[str, ...] = ()
    generations: tuple[str, ...] = ()
    zone: str | None = None
    """None: for each type the zone with the lowest price."""
    num_slices: int = 1
    is_spot: bool = False
    """The marks and limits go by what a run costs on spot capacity."""
    preempted_every_s: float | None = None
    """The mean time between preemptions of a spot slice; None: an assumption."""


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """What a run may take and cost; None does not limit."""

    days: float | None = None
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class TrainPlanSpec:
    """A training run whose slice is looked for; None is chosen by the plan."""

    model: ModelChoice
    tokens: float
    sequence_tokens: int
    batch_sequences: int | None = None
    remat: str | None = None
    precision: str = "bf16"
    optimizer: str = "adam"
    mesh: Mapping[str, int] = field(default_factory=dict)
    slices: SliceChoice = SliceChoice()
    limits: PlanLimits = PlanLimits()


@dataclass(frozen=True, slots=True)
class ServePlanSpec:
    """Requests that a model is to answer, and the slices that are compared for it."""

    model: ModelChoice
    prompt_tokens: int
    output_tokens: int
    rate: float | None = None
    """Requests in a second that must be answered."""
    latency_s: float | None = None
    """The longest a request may take, from its arrival to its last token."""
    weight_bits: int = 16
    cache_bits: int = 16
    tensor: int | None = None
    slices: SliceChoice = SliceChoice()
