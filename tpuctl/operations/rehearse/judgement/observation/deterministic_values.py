"""Which values two undisturbed runs agree on, and where another run's values differ from them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tpuctl.operations.rehearse.judgement.observation.logged_steps import (
    StepLog,
    ToldStep,
    is_count,
)

Place = tuple[int, int]
"""(worker, step)"""


@dataclass(frozen=True, slots=True)
class ReferenceValues:
    """What every step's values are when nothing disturbs the job."""

    texts: Mapping[Place, Mapping[str, str]]
    """(worker, step) -> metric -> text, of the metrics that are compared."""
    metrics: tuple[str, ...]
    """The metrics that are compared."""
    unstable: tuple[str, ...] = ()
    """Metrics that differ between two undisturbed runs, such as times."""
    counters: tuple[str, ...] = ()
    """Metrics that are compared and only count: they grow by the same amount with each step."""


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """A value that is not that of the reference."""

    metric: str
    worker_id: int
    step: int
    text: str
    expected: str


def values_by_place(steps: Iterable[ToldStep]) -> dict[Place, Mapping[str, str]]:
    """(worker, step) -> values; of a step that several attempts made, those of the last."""
    latest = sorted(steps, key=lambda step: step.attempt)
    return {(step.worker_id, step.step): step.values for step in latest}


def reference_values(
    logs: Sequence[StepLog],
    wanted: Iterable[str] = (),
    tolerance: Mapping[str, float] | None = None,
) -> ReferenceValues:
    """The values that undisturbed runs agree on; of a single run, all of them."""
    tables = [values_by_place(log.steps) for log in logs]
    first = tables[0] if tables else {}
    names = sorted({name for values in first.values() for name in values} - {"examples"})
    limits = tolerance or {}
    stable = [
        name
        for name in names
        if all(_agree(name, first, other, limits.get(name)) for other in tables[1:])
    ]
    chosen = tuple(name for name in stable if not wanted or name in set(wanted))
    texts = {
        place: {name: values[name] for name in chosen if name in values}
        for place, values in first.items()
    }
    unstable = tuple(name for name in names if name not in stable)
    counters = tuple(name for name in chosen if _is_counter(name, texts))
    return ReferenceValues(texts, chosen, unstable, counters)


def differing_values(
    steps: Iterable[ToldStep], reference: ReferenceValues, tolerance: Mapping[str, float]
) -> tuple[ValueDifference, ...]:
    """Every value of a run that is not that of the reference, in the order of steps."""
    differences = [
        ValueDifference(metric, worker, step, values[metric], expected)
        for (worker, step), values in values_by_place(steps).items()
        for metric, expected in reference.texts.get((worker, step), {}).items()
        if metric in values and not is_equal(values[metric], expected, tolerance.get(metric))
    ]
    return tuple(sorted(differences, key=lambda each: (each.step, each.worker_id, each.metric)))


def is_equal(text: str, expected: str, tolerance: float | None = None) -> bool:
    """Whether a value counts as equal: the same text, or within a relative tolerance."""
    if text == expected or tolerance is None:
        return text == expected
    value, reference = number_of(text), number_of(expected)
    if value is None or reference is None:
        return False
    return abs(value - reference) <= tolerance * abs(reference)


def is_rounding(difference: ValueDifference) -> bool:
    """Whether a value differs by one in its last printed digit, as another order of a sum may."""
    value, expected = number_of(difference.text), number_of(difference.expected)
    if value is None or expected is None or "e" in difference.expected.lower():
        return False
    decimals = len(difference.expected.partition(".")[2])
    return decimals > 0 and abs(value - expected) < 1.5 * 10.0**-decimals


def number_of(text: str) -> float | None:
    """A text as a number; None: it is not one."""
    try:
        return float(text)
    except ValueError:
        return None


def _agree(
    name: str,
    first: Mapping[Place, Mapping[str, str]],
    second: Mapping[Place, Mapping[str, str]],
    tolerance: float | None,
) -> bool:
    shared = [place for place in first if place in second]
    pairs = ((first[place].get(name), second[place].get(name)) for place in shared)
    return all(
        one == other or (one is not None and other is not None and is_equal(other, one, tolerance))
        for one, other in pairs
    )


def _is_counter(name: str, texts: Mapping[Place, Mapping[str, str]]) -> bool:
    """Whether a metric grows by the same amount above 0 with each step of every worker."""
    by_worker: dict[int, list[tuple[int, float]]] = {}
    for (worker, step), values in texts.items():
        text = values.get(name, "")
        if not is_count(text):
            return False
        by_worker.setdefault(worker, []).append((step, float(text)))
    return bool(by_worker) and all(map(_is_even_growth, by_worker.values()))


def _is_even_growth(rows: list[tuple[int, float]]) -> bool:
    ordered = sorted(rows)
    slopes = [
        (after[1] - before[1]) / (after[0] - before[0])
        for before, after in zip(ordered, ordered[1:], strict=False)
    ]
    return (
        bool(slopes)
        and slopes[0] > 0
        and all(abs(slope - slopes[0]) <= 1e-9 * abs(slopes[0]) for slope in slopes)
    )
