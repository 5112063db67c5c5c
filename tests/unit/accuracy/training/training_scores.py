"""How far the training model is from published steps that it has not seen, and what a constant
utilisation scores on them."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np

from unit.accuracy.accuracy_scores import Score, score
from unit.accuracy.training.training_fit import COMMON, Fit, column, fit
from unit.accuracy.training.training_rows import TrainingRow, training_rows

NOMINAL = 0.9
"""Share of the steps that an interval is made for."""
WIDEST = 1.6
"""High over low, at most: a wider interval tells nobody which slice to take."""
APART = 0.03
"""Two configurations that differ by less are not put in an order."""


def of_use(*uses: str) -> np.ndarray:
    """The rows of these uses."""
    return np.isin(column("use"), uses)


@cache
def full_fit() -> Fit:
    """What all fitted rows tell."""
    return fit(np.ones(len(training_rows()), bool))


@cache
def fitted_s() -> np.ndarray:
    """Of every row, what the packaged constants say: fitted rows have been seen."""
    return full_fit().predicted_s(np.ones(len(training_rows()), bool))


@cache
def packaged_s() -> np.ndarray:
    """Of every row, what the package says: it knows of no framework."""
    told = full_fit()
    return Fit(told.constants, told.generations, {}).predicted_s(
        np.ones(len(training_rows()), bool)
    )


@cache
def left_out_s(field: str) -> np.ndarray:
    """Of every row, what the model says when no row with its family, generation, … is fitted."""
    values = column(field)
    predicted = np.zeros(len(values))
    for value in sorted(set(values)):
        own = values == value
        predicted[own] = fit(~own).predicted_s(own)
    return predicted


@cache
def constant_share_s(field: str) -> np.ndarray:
    """What a constant utilisation says: the median of fitted rows of the generation and kind.

    Rows that have the row's `field` in common are left out; where none is left, those of other
    generations are taken.
    """
    rows = training_rows()
    shares = np.array([row.ideal_s / row.measured_s for row in rows])
    fitted, values, kinds = of_use("fitted"), column(field), column("has_experts")
    predicted = []
    for number, row in enumerate(rows):
        alike = fitted & (values != values[number]) & (kinds == kinds[number])
        own = alike & (column("generation") == row.generation)
        predicted.append(row.ideal_s / np.median(shares[own if own.any() else alike]))
    return np.array(predicted)


def step_score(predicted_s: np.ndarray, chosen: np.ndarray) -> Score:
    """The errors of the chosen rows."""
    found = score(predicted_s[chosen], column("measured_s")[chosen])
    assert found is not None
    return found


def ordered_pairs(predicted_s: np.ndarray, chosen: np.ndarray) -> tuple[int, int]:
    """Pairs of one model, generation and framework whose tokens a second and chip differ: how many
    the model puts in their order, of how many."""
    right = pairs = 0
    for first, second in _pairs(chosen):
        measured = _rate(first, training_rows()[first].measured_s) / _rate(
            second, training_rows()[second].measured_s
        )
        if abs(np.log(measured)) <= np.log1p(APART):
            continue
        modelled = _rate(first, predicted_s[first]) / _rate(second, predicted_s[second])
        pairs += 1
        right += bool((measured > 1) == (modelled > 1))
    return right, pairs


@cache
def spreads() -> dict[str, dict[str, tuple[float, float]]]:
    """Kind -> what is known -> low and high of measured over predicted.

    `model`: steps of that very model and generation are fitted, `generation`: others of the
    generation, `nothing`: none of the generation, `software`: those of other frameworks than the
    common one.
    """
    known = {
        "model": packaged_s(),
        "generation": left_out_s("family"),
        "nothing": left_out_s("generation"),
    }
    made_with = of_use("fitted", "development")
    found = {
        kind: {
            name: _window(column("measured_s")[chosen] / predicted[chosen])
            for name, predicted in known.items()
        }
        for kind, chosen in (
            ("dense", made_with & ~column("has_experts")),
            ("experts", made_with & column("has_experts")),
        )
    }
    foreign = made_with & ~column("has_experts") & (column("framework") != COMMON)
    found["dense"]["software"] = _window((column("measured_s") / unknown_software_s())[foreign])
    return found


@cache
def unknown_software_s() -> np.ndarray:
    """Of every row, what the model says when its publication is left out and its framework is not
    told."""
    values = column("publication")
    predicted = np.zeros(len(values))
    for value in sorted(set(values)):
        own = values == value
        told = fit(~own)
        predicted[own] = Fit(told.constants, told.generations, {}).predicted_s(own)
    return predicted


def foreign_generations() -> list[str]:
    """The generations of which only steps of other frameworks than the common one are fitted."""
    fitted = of_use("fitted")
    common = set(column("generation")[fitted & (column("framework") == COMMON)])
    return sorted(set(column("generation")[fitted]) - common)


def covered(predicted_s: np.ndarray, chosen: np.ndarray, known: str) -> float:
    """Percent of the chosen rows that lie in their interval."""
    ratios = column("measured_s") / predicted_s
    kinds = np.where(column("has_experts"), "experts", "dense")
    low, high = (np.array([spreads()[str(kind)][known][side] for kind in kinds]) for side in (0, 1))
    return float(100 * np.mean(((low <= ratios) & (ratios <= high))[chosen]))


def _window(ratios: np.ndarray) -> tuple[float, float]:
    """The narrowest range of NOMINAL of the ratios; else WIDEST around the middle."""
    logs = np.sort(np.log(ratios))
    inside = int(np.ceil(NOMINAL * logs.size)) - 1
    widths = logs[inside:] - logs[: logs.size - inside]
    start = int(np.argmin(widths))
    low, high = logs[start], logs[start + inside]
    if high - low > np.log(WIDEST):
        middle, half = np.median(logs), np.log(WIDEST) / 2
        low, high = middle - half, middle + half
    return float(np.exp(min(low, -0.01))), float(np.exp(max(high, 0.01)))


def _pairs(chosen: np.ndarray) -> Iterator[tuple[int, int]]:
    rows: Sequence[TrainingRow] = training_rows()
    for first, second in combinations(np.flatnonzero(chosen), 2):
        if _configured(rows[first]) == _configured(rows[second]):
            yield int(first), int(second)


def _configured(row: TrainingRow) -> tuple[Any, ...]:
    return row.model_name, row.generation, row.framework


def _rate(number: int, seconds: float) -> float:
    row = training_rows()[number]
    return float(row.run.tokens / (seconds * row.chips))
