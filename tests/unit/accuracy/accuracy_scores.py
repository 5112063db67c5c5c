"""How far the model is from what was published, for rows that it has not seen."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from tpuctl.perfmodel.chip import gemm
from tpuctl.perfmodel.chip.calibration import Constants
from unit.accuracy import constant_fit, multislice_check, naive_models, published_rows
from unit.accuracy.published_rows import Table

KINDS = (
    "gemm regular",
    "gemm irregular",
    "gemm irregular large",
    "memory",
    "elementwise",
    "collective",
    "dcn",
)
NOMINAL = 0.9
"""Share of the rows that an interval is made for."""


Bounds = Callable[[Table, str], tuple[np.ndarray, np.ndarray]]
"""The rows and their kind -> the ends of the interval of each, in seconds."""


@dataclass(frozen=True, slots=True)
class Score:
    """Errors of some rows, in percent of what was measured; `bias` is the median with its sign."""

    rows: int
    median: float
    p90: float
    bias: float


def score(predicted_s: np.ndarray, measured_s: np.ndarray) -> Score | None:
    """None where nothing was predicted."""
    errors = 100 * (predicted_s / measured_s - 1)
    errors = errors[np.isfinite(errors)]
    if not errors.size:
        return None
    sizes = np.abs(errors)
    return Score(
        errors.size,
        float(np.median(sizes)),
        float(np.quantile(sizes, 0.9)),
        float(np.median(errors)),
    )


@cache
def all_constants() -> constant_fit.Told:
    """What all fitted rows tell."""
    return constant_fit.fit(constant_fit.fitted_rows())


@cache
def without_generation(generation: str) -> Constants:
    """What a generation has when none of its rows is fitted."""
    if generation not in constant_fit.TOLD:
        return constant_fit.constants(generation, all_constants())
    rows = [one for one in constant_fit.fitted_rows() if one.generation != generation]
    return constant_fit.constants(generation, constant_fit.fit(rows))


@cache
def without_work(generation: str, kind: str, label: str) -> Constants:
    """What a generation has when no row of this work is fitted."""
    rows = [
        one.select(np.array([name != label for name in one.labels()], dtype=bool))
        if (one.generation, one.kind) == (generation, kind)
        else one
        for one in constant_fit.fitted_rows()
    ]
    told = dict(all_constants())
    told[generation] = constant_fit.refit(generation, rows, told)
    return constant_fit.constants(generation, told)


@cache
def without_group(generation: str, operation: str, chips: int) -> Constants:
    """What a generation has when no row of this operation over so many chips is fitted."""
    rows = [
        one.select(~_is_of_group(one, operation, chips)) if one.generation == generation else one
        for one in constant_fit.fitted_rows()
    ]
    told = dict(all_constants())
    told[generation] = constant_fit.refit(generation, rows, told)
    return constant_fit.constants(generation, told)


def without_group_s(table: Table) -> np.ndarray:
    """The model's prediction of every collective as of an operation and group not yet seen."""
    predicted = np.empty(table.uses.size)
    for i, (operation, axes) in enumerate(_groups(table)):
        own = without_group(table.generation, operation, published_rows.chips_of(axes))
        predicted[i] = table.select(np.array([i])).predicted_s(own)[0]
    return predicted


def _is_of_group(table: Table, operation: str, chips: int) -> np.ndarray:
    if table.kind != "collective":
        return np.zeros(table.uses.size, dtype=bool)
    alike = [
        (one, published_rows.chips_of(axes)) == (operation, chips) for one, axes in _groups(table)
    ]
    return np.array(alike, dtype=bool)


def _groups(table: Table) -> Iterator[tuple[str, published_rows.Axes]]:
    return zip(table.columns["operation"], table.columns["axes"], strict=True)


def unseen_s(table: Table) -> np.ndarray:
    """The model's prediction of every row, fitted without any row of the same work."""
    return _left_out_s(table, Table.predicted_s)


def unseen_fast_s(table: Table) -> np.ndarray:
    """The same if the compiler always chooses large tiles: what an interval is a multiple of."""
    return _left_out_s(table, Table.fast_s)


def nearer_s(table: Table) -> np.ndarray:
    """Of the two times of a product that the model names, the one nearer to what was published."""
    everything = constant_fit.constants(table.generation, all_constants())
    fast = unseen_fast_s(table)
    slow = fast + gemm.retiling_s(everything, published_rows.work_of(table))
    is_slow = np.abs(np.log(slow / table.measured_s)) < np.abs(np.log(fast / table.measured_s))
    return np.where(is_slow, slow, fast)


def _left_out_s(table: Table, predict: Callable[[Table, Constants], np.ndarray]) -> np.ndarray:
    everything = constant_fit.constants(table.generation, all_constants())
    predicted = predict(table, everything)
    seen = _fitted_labels(table.generation, table.kind)
    for i, label in enumerate(table.labels()):
        if label in seen:
            own = without_work(table.generation, table.kind, label)
            predicted[i] = predict(table.select(np.array([i])), own)[0]
    return predicted


def without_generation_s(table: Table) -> np.ndarray:
    """The model's prediction of every row, fitted without any row of its generation."""
    return table.predicted_s(without_generation(table.generation))


def bounds_s(table: Table, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """The interval of every row, as programs get it: no lower than the peaks allow."""
    return _around(table, kind, unseen_s(table), unseen_fast_s(table))


def bounds_of_unseen_group_s(table: Table, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """The interval of every collective as of an operation and group not yet seen."""
    value = without_group_s(table)
    return _around(table, kind, value, value)


def _around(
    table: Table, kind: str, value: np.ndarray, fast: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    spread = spreads()[kind]
    low = np.minimum(fast * spread["low"], _along_axes_s(table))
    low = np.maximum(low, _at_peak_s(table))
    return np.minimum(low, value), np.maximum(fast * spread["high"], value)


def covered(
    chosen: Sequence[tuple[Table, np.ndarray]], kind: str, bounds: Bounds = bounds_s
) -> float:
    """Percent of the chosen rows whose published time is in the interval."""
    inside = []
    for table, rows in chosen:
        low, high = bounds(table, kind)
        inside.append(((low <= table.measured_s) & (table.measured_s <= high))[rows])
    return float(100 * np.mean(np.concatenate(inside)))


def _along_axes_s(table: Table) -> np.ndarray:
    """What a collective takes whose steps follow the axes, which nobody has measured."""
    if table.kind != "collective":
        return np.full(table.uses.size, np.inf)
    everything = constant_fit.constants(table.generation, all_constants())
    return published_rows.collective_s(table, everything, is_topology_aware=True)


def _at_peak_s(table: Table) -> np.ndarray:
    if table.kind != "gemm":
        return naive_models.roofline(table)
    everything = constant_fit.constants(table.generation, all_constants())
    parts = gemm.terms(everything, table.chip, published_rows.work_of(table))
    return np.asarray(gemm.peak_seconds(everything, parts), dtype=float)


def parts_of(table: Table) -> Iterator[tuple[str, np.ndarray]]:
    """The kinds that intervals are made for, and which rows are of each."""
    if table.kind != "gemm":
        yield table.kind, np.ones(table.uses.size, dtype=bool)
        return
    yield "gemm regular", table.is_regular
    yield "gemm irregular", ~table.is_regular & ~table.is_large
    yield "gemm irregular large", table.is_large


def of_kind(
    kind: str, uses: Sequence[str], generation: str | None = None
) -> list[tuple[Table, np.ndarray]]:
    """Tables of some uses, and which of their rows are of a kind."""
    return [
        (table.of_use(*uses), chosen)
        for table in published_rows.tables()
        if generation in (None, table.generation) and table.of_use(*uses).uses.size
        for name, chosen in parts_of(table.of_use(*uses))
        if name == kind and chosen.any()
    ]


def gather(
    chosen: Sequence[tuple[Table, np.ndarray]], predict: Callable[[Table], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """What is predicted and what was measured of rows of several tables."""
    predicted = [predict(table)[rows] for table, rows in chosen]
    measured = [table.measured_s[rows] for table, rows in chosen]
    return np.concatenate(predicted), np.concatenate(measured)


@cache
def spreads() -> Mapping[str, Mapping[str, float]]:
    """The intervals: measured over predicted, of fitted rows left out and of development's.

    The ranks are those for which one more row of the same kind falls between them in NOMINAL of
    the cases; with few rows they are the ends. Rows of collectives are few and most generations
    have none: so they count a second time as predicted without their generation.
    """
    spreads_of = {kind: _spread(*_residuals(kind)) for kind in KINDS if kind != "dcn"}
    return {**spreads_of, "dcn": _dcn_spread()}


def _residuals(kind: str) -> tuple[np.ndarray, np.ndarray]:
    chosen = of_kind(kind, ("fitted", "development"))
    predicted, measured = gather(chosen, unseen_fast_s)
    if kind != "collective":
        return predicted, measured
    others, _ = gather(chosen, without_generation_s)
    return np.concatenate([predicted, others]), np.concatenate([measured, measured])


def _dcn_spread() -> dict[str, float]:
    """One row tells the share of the network: no less than at its peak, and at most as much above
    as the published training step that loses most by its slices."""
    constants = constant_fit.constants(multislice_check.generation(), all_constants())
    most = max(one.lost_s / one.network_s for one in multislice_check.losses(constants))
    return {"low": round(constants.dcn_efficiency, 3), "high": round(most, 3), "rows": 1}


def _spread(predicted_s: np.ndarray, measured_s: np.ndarray) -> dict[str, float]:
    ratios = np.sort(measured_s / predicted_s)
    rank = int((len(ratios) + 1) * (1 - NOMINAL) / 2)
    low, high = ratios[max(rank, 1) - 1], ratios[-max(rank, 1)]
    return {"low": round(float(low), 3), "high": round(float(high), 3), "rows": len(ratios)}


@cache
def _fitted_labels(generation: str, kind: str) -> frozenset[str]:
    alike = [
        one
        for one in constant_fit.fitted_rows()
        if (one.generation, one.kind) == (generation, kind)
    ]
    return frozenset(label for one in alike for label in one.labels())


CACHED = (
    all_constants,
    without_generation,
    without_work,
    without_group,
    spreads,
    _fitted_labels,
)
"""What is worked out once from the tables."""
