"""What each key of a plan file may be: what the reader checks, and editors are told by a schema."""

from collections.abc import Mapping
from dataclasses import dataclass

from tpuctl.models.planning import plan_spec
from tpuctl.models.planning.mesh_text import AXES

FLAG_WORDS: Mapping[str, bool] = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
}
FLAG_STARTS = ("is_", "has_", "full_keys_are_")
"""How the names of a shape's fields begin that are true or false."""


@dataclass(frozen=True, slots=True)
class AmountKind:
    """A number from `least` to `most`, which may be written as 4M or 1.5T."""

    least: float
    most: float
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class ChoiceKind:
    """One of some names, or of some numbers."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DurationKind:
    """A time such as 12h or 250ms, above 0 and at most `most_s`."""

    most_s: float


@dataclass(frozen=True, slots=True)
class FlagKind:
    """True or false."""


@dataclass(frozen=True, slots=True)
class NameKind:
    """A name of the catalog, or several of them."""

    is_list: bool = False


ValueKind = AmountKind | ChoiceKind | DurationKind | FlagKind | NameKind


def _count(most: float, least: int = 1) -> AmountKind:
    return AmountKind(least, most, is_whole=True)


VALUE_KINDS: Mapping[str, ValueKind] = {
    "model": NameKind(),
    "run.tokens": AmountKind(1, plan_spec.MOST_TOKENS),
    "run.seq": _count(plan_spec.MOST_SEQUENCE_TOKENS),
    "run.batch": _count(plan_spec.MOST_SEQUENCES),
    "run.batch_tokens": AmountKind(1, plan_spec.MOST_BATCH_TOKENS),
    "run.remat": ChoiceKind(plan_spec.REMATS),
    "run.precision": ChoiceKind(plan_spec.PRECISIONS),
    "run.optimizer": ChoiceKind(tuple(plan_spec.OPTIMIZERS)),
    **{f"run.mesh.{axis}": _count(plan_spec.MOST_SIDE) for axis in AXES},
    "serve.in": _count(plan_spec.MOST_SEQUENCE_TOKENS),
    "serve.out": _count(plan_spec.MOST_SEQUENCE_TOKENS, least=2),
    "serve.rate": AmountKind(1e-6, plan_spec.MOST_REQUESTS_PER_S),
    "serve.latency": DurationKind(plan_spec.MOST_LATENCY_S),
    "serve.weight_bits": ChoiceKind(plan_spec.BITS),
    "serve.cache_bits": ChoiceKind(plan_spec.BITS),
    "serve.tensor": _count(plan_spec.MOST_SIDE),
    "slices.types": NameKind(is_list=True),
    "slices.generations": NameKind(is_list=True),
    "slices.zone": NameKind(),
    "slices.num_slices": _count(plan_spec.MOST_SLICES),
    "slices.spot": FlagKind(),
    "slices.preempted_every": DurationKind(plan_spec.MOST_DAYS * 86400),
    "limits.days": AmountKind(1e-6, plan_spec.MOST_DAYS),
    "limits.usd": AmountKind(1e-6, plan_spec.MOST_USD),
}
"""The path of a key -> its kind; of the fields of a model's shape `shape_kind` says it."""


def shape_kind(path: str) -> AmountKind | FlagKind:
    """The kind of a field of a model's shape, such as `model.experts.count`."""
    is_flag = path.rpartition(".")[2].startswith(FLAG_STARTS)
    return FlagKind() if is_flag else _count(plan_spec.MOST_SIDE, least=0)
