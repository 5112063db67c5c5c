"""The constants of serving, fitted to the rows of use `fitted`, and the intervals.

`PYTHONPATH=tests python -m unit.accuracy.serving_fit` writes decode_constants.json. What is made
small: the squares of the logarithms of predicted over published, and of how far each constant is
from a value of its book and each factor is from 1, over how far they are thought to lie (ridge
regression). So a factor of a model with one row takes a part of that row's error only.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tpuctl.perfmodel.workload import serving_constants
from tpuctl.perfmodel.workload.decode_step import StepWork, step_terms
from tpuctl.perfmodel.workload.forward_pass import PassWork
from tpuctl.perfmodel.workload.prefill import prompt_terms
from tpuctl.perfmodel.workload.serving_constants import KnownFactors, ServingConstants
from unit.accuracy.serving_rows import ServingRow, rows, seconds_of, work_of

FILE = Path(serving_constants.__file__).with_name("decode_constants.json")

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

FACTORS = {"generation": 0.10, "engine": 0.15, "model": 0.20, "prompt": 0.40, "lockstep": 0.4}
"""Factor -> the logarithm that it is thought to be from 1."""

LOCKSTEP = 0.4
"""How much of a prompt the other ranks wait for, of an engine without rows: 0 none, 1 all of it."""

NOISE = 0.10
"""What the formula is thought to be off for a row whose constants are right."""
OUTLIER = 3.0
"""Errors of more than so many times the noise count in proportion, not squared (Huber)."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Rows with their work as arrays, so that all are predicted at once."""

    chosen: tuple[ServingRow, ...]
    step: StepWork
    last_step: StepWork
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
    decode = column("generation", "engine", "model")
    return _seconds(data, fitted.constants, decode, column("prompt"), np.array(lockstep))


def _seconds(
    data: Stack, constants: ServingConstants, decode: np.ndarray, prompt: np.ndarray, lockstep: np.ndarray
) -> np.ndarray:
    factors = KnownFactors(decode=decode, prompt=prompt, lockstep=lockstep, kinds=())  # type: ignore[arg-type]
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
    levels = {
        kind: sorted({names_of(row)[kind] for row in chosen}) for kind in FACTORS
    }
    columns = [(kind, name) for kind, names in levels.items() for name in names]
    member = np.array(
        [[float(names_of(row)[kind] == name) for kind, name in columns] for row in chosen]
    )
    is_prompt = np.array([kind == "prompt" for kind, _ in columns])
    is_lock = np.array([kind == "lockstep" for kind, _ in columns])
    sigmas = np.array([FACTORS[kind] for kind, _ in columns])
    count = len(PRIOR)

    def unpack(logs: np.ndarray) -> tuple[ServingConstants, np.ndarray, np.ndarray, np.ndarray]:
        values = [book * np.exp(spread * z) for (book, spread), z in zip(PRIOR.values(), logs)]
        effects = sigmas * logs[count:]
        others = ~(is_prompt | is_lock)
        decode = np.exp(member[:, others] @ effects[others])
        prompt = np.exp(member[:, is_prompt] @ effects[is_prompt])
        lockstep = LOCKSTEP + member[:, is_lock] @ effects[is_lock]
        return ServingConstants(**dict(zip(PRIOR, values))), decode, prompt, lockstep

    def residuals(logs: np.ndarray) -> np.ndarray:
        errors = np.log(_seconds(data, *unpack(logs)) / data.measured_s) / NOISE
        return np.concatenate([_huber(errors), logs])

    logs = least_squares(residuals, np.zeros(count + len(columns)))
    constants, *_ = unpack(logs)
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
            move = np.linalg.solve(
                slopes.T @ slopes + damping * np.eye(len(at)), -slopes.T @ here
            )
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


def of_use(*uses: str) -> list[ServingRow]:
    """Rows of some uses."""
    return [row for row in rows() if row.use in uses]
