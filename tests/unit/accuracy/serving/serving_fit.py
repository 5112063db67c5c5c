"""The constants of serving, fitted to the rows of use `fitted`, and the intervals.

`PYTHONPATH=tests python -m unit.accuracy.serving.serving_fit` writes decode_constants.json. What is
made small: the squares of the logarithms of predicted over published, and of how far each constant
is from a value of its book and each factor is from 1, over how far they are thought to lie (ridge
regression). So a factor of a model with one row takes a part of that row's error only."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tpuctl.perfmodel.workload.serving import serving_constants
from tpuctl.perfmodel.workload.serving.decode_step import DecodeWork, step_terms
from tpuctl.perfmodel.workload.serving.forward_pass import PassWork
from tpuctl.perfmodel.workload.serving.prefill import prompt_terms
from tpuctl.perfmodel.workload.serving.serving_constants import KnownFactors, ServingConstants
from unit.accuracy.serving.serving_rows import ServingRow, rows, seconds_of, work_of

FILE = Path(serving_constants.__file__).with_name("decode_constants.json")
SCORES = Path(__file__).with_name("serving_left_out.json")
FOLDS = 8
NOMINAL = {"known": 0.88, "other model": 0.88, "elsewhere": 0.8}
"""Share of the rows that an interval is made for: more than the 80 % of new ones that are to be in
it, as far as high over low may be."""

PRIOR = {
    "weight_efficiency": (0.80, 0.10),
    "expert_efficiency": (0.75, 0.15),
    "cache_efficiency": (0.55, 0.35),
    "prompt_efficiency": (0.40, 0.40),
    "prompt_expert_efficiency": (0.20, 0.50),
    "ici_efficiency": (0.80, 0.05),
    "attention_s": (0.5e-6, 0.80),
    "collective_s": (8e-6, 0.50),
    "layer_s": (20e-6, 0.80),
    "expert_layer_s": (60e-6, 0.80),
    "linear_layer_s": (40e-6, 0.80),
    "step_s": (1.5e-3, 0.60),
    "request_s": (8e-6, 0.80),
}
"""Constant -> a value of its book, and the logarithm that it is thought to be off."""

FACTORS = {
    "generation": 0.10,
    "engine": 0.10,
    "model": 0.25,
    "pair": 0.15,
    "overhead": 0.30,
    "prompt": 0.40,
    "lockstep": 0.4,
}
"""Factor -> the logarithm that it is thought to be from 1."""

LOCKSTEP = 0.4
"""How much of a prompt the other ranks wait for, of an engine without rows: 0 none, 1 all of it."""

NOISE = 0.15
"""What the formula is thought to be off for a row whose constants are right: what fitted rows that
are left out with their cell are off."""
OUTLIER = 3.0
"""Errors of more than so many times the noise count in proportion, not squared (Huber)."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Rows with their work as arrays, so that all are predicted at once."""

    chosen: tuple[ServingRow, ...]
    step: DecodeWork
    last_step: DecodeWork
    alone: PassWork
    measured_s: np.ndarray


@dataclass(frozen=True, slots=True)
class Fitted:
    """Constants and factors; a factor that no row tells is 1."""

    constants: ServingConstants
    factors: dict[str, dict[str, float]]


@cache
def _work(row: ServingRow) -> Any:
    return work_of(row)


def stack(chosen: Sequence[ServingRow]) -> Stack:
    """The work of some rows as arrays."""
    works = [_work(row) for row in chosen]
    return Stack(
        chosen=tuple(chosen),
        step=_join([work.step for work in works]),
        last_step=_join([work.last_step for work in works]),
        alone=_join([work.alone for work in works]),
        measured_s=np.array([row.measured_s for row in chosen]),
    )


def _join(works: Sequence[Any]) -> Any:
    """Records of figures, or of such records, as one of arrays."""
    if not hasattr(works[0], "__dataclass_fields__"):
        return np.array([float(work) for work in works])
    names = [field.name for field in fields(works[0])]
    return type(works[0])(**{name: _join([getattr(w, name) for w in works]) for name in names})


def names_of(row: ServingRow) -> dict[str, str]:
    """The factors that a row is multiplied by."""
    return {
        "generation": row.hardware.generation,
        "engine": row.run.engine,
        "model": row.model,
        "pair": f"{row.run.engine} {row.model}",
        "overhead": row.run.engine,
        "prompt": row.run.engine,
        "lockstep": row.run.engine,
    }


def predicted_s(fitted: Fitted, data: Stack) -> np.ndarray:
    """What the model says of rows."""

    def column(*kinds: str) -> np.ndarray:
        logs = [
            sum(np.log(fitted.factors[kind].get(names_of(row)[kind], 1.0)) for kind in kinds)
            for row in data.chosen
        ]
        return np.exp(np.array(logs, dtype=float))

    locks = fitted.factors["lockstep"]
    lockstep = [locks.get(row.run.engine, LOCKSTEP) for row in data.chosen]
    factors = KnownFactors(
        decode=column("generation", "engine", "model", "pair"),
        overhead=column("overhead"),
        prompt=column("prompt"),
        lockstep=np.array(lockstep),
        kinds=(),
    )
    return predict(data, fitted.constants, factors)


def predict(data: Stack, constants: ServingConstants, factors: KnownFactors) -> np.ndarray:
    """What some constants and factors say of rows; factors are arrays of one for each, or one."""
    token, last = (
        sum(step_terms(work, constants, factors)[0].values())
        for work in (data.step, data.last_step)
    )
    first = sum(prompt_terms(data.alone, constants, factors).values())
    times = zip(data.chosen, token, last, first, strict=True)
    return np.array([seconds_of(row, *seconds) for row, *seconds in times])


def fit(chosen: Sequence[ServingRow]) -> Fitted:
    """What some rows tell."""
    data = stack(chosen)
    levels = {kind: sorted({names_of(row)[kind] for row in chosen}) for kind in FACTORS}
    columns = [(kind, name) for kind, names in levels.items() for name in names]
    member = np.array(
        [[float(names_of(row)[kind] == name) for kind, name in columns] for row in chosen]
    )
    sigmas = np.array([FACTORS[kind] for kind, _ in columns])
    count = len(PRIOR)

    kinds = np.array([kind for kind, _ in columns])

    def together(effects: np.ndarray, *names: str) -> np.ndarray:
        chosen_columns = np.isin(kinds, names)
        return np.asarray(member[:, chosen_columns] @ effects[chosen_columns])

    def unpack(logs: np.ndarray) -> tuple[ServingConstants, KnownFactors]:
        values = [
            book * np.exp(spread * z)
            for (book, spread), z in zip(PRIOR.values(), logs[:count], strict=True)
        ]
        effects = sigmas * logs[count:]
        factors = KnownFactors(
            decode=np.exp(together(effects, "generation", "engine", "model", "pair")),
            overhead=np.exp(together(effects, "overhead")),
            prompt=np.exp(together(effects, "prompt")),
            lockstep=LOCKSTEP + together(effects, "lockstep"),
            kinds=(),
        )
        return ServingConstants(**dict(zip(PRIOR, values, strict=True))), factors

    def residuals(logs: np.ndarray) -> np.ndarray:
        errors = np.log(predict(data, *unpack(logs)) / data.measured_s) / NOISE
        return np.concatenate([_huber(errors), logs])

    logs = least_squares(residuals, np.zeros(count + len(columns)))
    constants, _ = unpack(logs)
    factors: dict[str, dict[str, float]] = {kind: {} for kind in FACTORS}
    for (kind, name), sigma, z in zip(columns, sigmas, logs[count:], strict=True):
        is_log = kind != "lockstep"
        factors[kind][name] = float(np.exp(sigma * z) if is_log else LOCKSTEP + sigma * z)
    return Fitted(constants, factors)


def _huber(errors: np.ndarray) -> np.ndarray:
    """Errors whose squares grow in proportion beyond the outliers' bound."""
    sizes = np.abs(errors)
    far = np.sqrt(np.maximum(2 * OUTLIER * sizes - OUTLIER**2, OUTLIER**2))
    return np.where(sizes > OUTLIER, np.sign(errors) * far, errors)


def least_squares(
    residuals: Callable[[np.ndarray], np.ndarray], start: np.ndarray, rounds: int = 60
) -> np.ndarray:
    """Levenberg's and Marquardt's method with slopes from small differences."""
    at, damping, step = start.copy(), 1.0, 1e-4
    here = residuals(at)
    for _ in range(rounds):
        slopes = np.column_stack(
            [(residuals(at + step * unit) - here) / step for unit in np.eye(len(at))]
        )
        while damping < 1e8:
            move = np.linalg.solve(slopes.T @ slopes + damping * np.eye(len(at)), -slopes.T @ here)
            there = residuals(at + move)
            if there @ there < here @ here:
                break
            damping *= 4
        if damping >= 1e8:
            return at
        gain = here @ here - there @ there
        at, here, damping = at + move, there, max(damping / 6, 1e-8)
        if gain < 1e-7:
            return at
    return at


def write() -> None:
    """The constants, and what the model says of every row without the row, and without its like."""
    fitted = fit(of_use("fitted"))
    left_out = left_out_s()
    FILE.write_text(document(fitted, left_out), encoding="utf-8")
    SCORES.write_text(json.dumps(left_out, indent=1) + "\n", encoding="utf-8")


def document(fitted: Fitted, left_out: Mapping[str, Sequence[float]]) -> str:
    """The text of decode_constants.json."""
    factors = {
        kind: {name: rounded(value) for name, value in values.items()}
        for kind, values in fitted.factors.items()
    }
    factors["lockstep"][""] = LOCKSTEP
    constants = {name: rounded(getattr(fitted.constants, name)) for name in PRIOR}
    content = {"constants": constants, "factors": factors, "spread": spreads(left_out)}
    return json.dumps(content, indent=1) + "\n"


def rounded(value: float) -> float:
    """Three digits: fits on two machines agree in as many."""
    return float(f"{value:.3g}")


def spreads(left_out: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Published over predicted of rows that may be used: the shortest range that holds enough."""
    usable = np.array([row.use != "held_out" for row in rows()])
    measured = np.array([row.measured_s for row in rows()])
    return {
        kind: _shortest(
            np.log(measured / np.array(predicted))[usable & is_scored(kind)], NOMINAL[kind]
        )
        for kind, predicted in left_out.items()
    }


def is_scored(kind: str) -> np.ndarray:
    """Rows that a kind of leaving out is scored on: without its cell, the model has other rows."""
    if kind != "known":
        return np.ones(len(rows()), dtype=bool)
    cells = {(row.model, cell_of(row)) for row in of_use("fitted")}
    return np.array(
        [any(m == row.model and cell != cell_of(row) for m, cell in cells) for row in rows()]
    )


def _shortest(logs: np.ndarray, share: float) -> dict[str, float]:
    ordered = np.sort(logs)
    inside = min(int(np.ceil(share * (len(ordered) + 1))), len(ordered))
    widths = ordered[inside - 1 :] - ordered[: len(ordered) - inside + 1]
    first = int(np.argmin(widths))
    low, high = np.exp(ordered[first]), np.exp(ordered[first + inside - 1])
    return {"low": rounded(min(low, 0.98)), "high": rounded(max(high, 1.02)), "rows": len(logs)}


def left_out_s() -> dict[str, list[float]]:
    """What is predicted of every row by fits without its cell, its model, or its generation."""
    return {
        "known": _without(cell_of, FOLDS),
        "other model": _without(lambda row: row.model),
        "elsewhere": _without(lambda row: row.hardware.generation),
    }


def cell_of(row: ServingRow) -> str:
    """Rows of one cell are the same run with another metric."""
    run = row.run
    parts = (row.model, run.engine, row.hardware.generation, row.hardware.topology)
    return " ".join(map(str, (*parts, run.parallelism, row.clients, run.prompt_tokens)))


def _without(like: Callable[[ServingRow], str], folds: int | None = None) -> list[float]:
    """Predictions by fits that leave out all rows that are alike, or a fold of them at a time."""
    names = sorted({like(row) for row in rows()})
    groups = [names[i::folds] for i in range(folds)] if folds else [[name] for name in names]
    predicted = np.zeros(len(rows()))
    for group in map(set, groups):
        chosen = [i for i, row in enumerate(rows()) if like(row) in group]
        fitted = fit([row for row in of_use("fitted") if like(row) not in group])
        predicted[chosen] = predicted_s(fitted, stack([rows()[i] for i in chosen]))
    return [float(f"{value:.4g}") for value in predicted]


def of_use(*uses: str) -> list[ServingRow]:
    """Rows of some uses."""
    return [row for row in rows() if row.use in uses]


if __name__ == "__main__":
    write()
