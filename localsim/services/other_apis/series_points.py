"""The points of a time series, and their alignment: one point for each period.

https://cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.alertPolicies#Aligner
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from localsim.rules.model.cloud_errors import invalid, unimplemented

SHORTEST_PERIOD_S = 60.0


class SeriesPoint(NamedTuple):
    """A value and when it holds; of a gauge start and end are the same."""

    start_s: float
    end_s: float
    value: float


@dataclass(frozen=True, slots=True)
class PointType:
    """What the values of a series are."""

    kind: str
    value_type: str
    unit: str


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


ALIGNERS: Mapping[str, tuple[str, Callable[[Sequence[float]], float]]] = {
    "ALIGN_MEAN": ("DOUBLE", _mean),
    "ALIGN_MIN": ("", min),
    "ALIGN_MAX": ("", max),
    "ALIGN_SUM": ("", sum),
    "ALIGN_COUNT": ("INT64", len),
}
"""Aligner -> the value type of its points, empty for that of the series, and its value."""
COUNTING = {"ALIGN_DELTA", "ALIGN_RATE"}
"""Aligners of DELTA series only: the sum of a period, or its rate per second."""


def align(
    kind: PointType, points: Sequence[SeriesPoint], aligner: str, period_s: float, end_s: float
) -> tuple[PointType, list[SeriesPoint]]:
    """Points in the order of time as an aligner leaves them; periods end at `end_s`.

    Raises INVALID_ARGUMENT, UNIMPLEMENTED.
    """
    if aligner == "ALIGN_NONE":
        return kind, list(points)
    if period_s < SHORTEST_PERIOD_S:
        raise invalid(
            f"aggregation.alignment_period must be at least {SHORTEST_PERIOD_S:.0f} seconds "
            f"for {aligner}."
        )
    if aligner in COUNTING:
        return _counted(kind, points, aligner, period_s, end_s)
    if aligner not in ALIGNERS:
        raise unimplemented(f"aggregation.per_series_aligner {aligner}")
    value_type, value = ALIGNERS[aligner]
    aligned = PointType("GAUGE", value_type or kind.value_type, "1" if value is len else kind.unit)
    return aligned, [
        SeriesPoint(until_s, until_s, value([each.value for each in inside]))
        for until_s, inside in _periods(points, period_s, end_s)
    ]


def _counted(
    kind: PointType, points: Sequence[SeriesPoint], aligner: str, period_s: float, end_s: float
) -> tuple[PointType, list[SeriesPoint]]:
    if kind.kind != "DELTA":
        raise invalid(f"{aligner} applies to DELTA and CUMULATIVE metrics, not to {kind.kind}.")
    periods = [
        (until_s, sum(each.value for each in inside))
        for until_s, inside in _periods(points, period_s, end_s)
    ]
    if aligner == "ALIGN_DELTA":
        return kind, [SeriesPoint(until_s - period_s, until_s, each) for until_s, each in periods]
    rate = PointType("GAUGE", "DOUBLE", f"{kind.unit}/s")
    return rate, [SeriesPoint(until_s, until_s, each / period_s) for until_s, each in periods]


def _periods(
    points: Iterable[SeriesPoint], period_s: float, end_s: float
) -> list[tuple[float, list[SeriesPoint]]]:
    """The points of each period that has any, by the end of the period, in the order of time."""
    found: dict[int, list[SeriesPoint]] = {}
    for each in points:
        found.setdefault(math.floor((end_s - each.end_s) / period_s), []).append(each)
    return [(end_s - number * period_s, found[number]) for number in sorted(found, reverse=True)]
