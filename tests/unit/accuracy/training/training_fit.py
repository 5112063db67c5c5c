"""The constants of the training model, fitted to the rows of use `fitted` and to no others.

What is made small: the squared error of every step's logarithm, large ones weighed down (Cauchy),
and the squared distance of every constant from what is expected of it, in units of how surely that
is known. By how much a generation or a framework is slower is a constant, too, expected to be 1: so
a generation with few rows stays near the mean of all. A family with many rows weighs less a row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from tpuctl.perfmodel.workload.training.step_work import StepWork
from tpuctl.perfmodel.workload.training.train_constants import TrainConstants
from tpuctl.perfmodel.workload.training.train_step import step_terms
from unit.accuracy.training.training_rows import stacked, training_rows


@dataclass(frozen=True, slots=True)
class Expected:
    """What a constant is before any step is known: its middle, and the spread of its logarithm.

    A share is fitted as its odds, so that it stays between 0 and 1.
    """

    middle: float
    spread: float
    is_share: bool = False

    def constant(self, offset: np.ndarray) -> np.ndarray:
        """The constant that lies `offset` spreads from the middle."""
        if not self.is_share:
            return np.asarray(self.middle * np.exp(self.spread * offset))
        odds = self.middle / (1 - self.middle) * np.exp(self.spread * offset)
        return np.asarray(odds / (1 + odds))


EXPECTED: Mapping[str, Expected] = MappingProxyType(
    {
        "matmul_efficiency": Expected(0.95, 0.3, is_share=True),
        "expert_efficiency": Expected(0.85, 0.3, is_share=True),
        "attention_efficiency": Expected(0.65, 0.5, is_share=True),
        "attention_start": Expected(1000.0, 0.7),
        "attention_padding": Expected(0.5, 1.0, is_share=True),
        "recomputed_share": Expected(0.65, 0.3),
        "masked_share": Expected(0.5, 0.5),
        "narrow_matmul": Expected(0.2, 0.7),
        "narrow_experts": Expected(0.5, 0.7),
        "matmul_traffic": Expected(1.0, 0.3),
        "exposed_reread": Expected(0.6, 0.6),
        "elementwise_traffic": Expected(1.2, 0.3),
        "dispatch_traffic": Expected(1.0, 0.7),
        "quantize_traffic": Expected(0.6, 0.5),
        "ici_efficiency": Expected(0.7, 0.7, is_share=True),
        "dcn_efficiency": Expected(0.5, 0.7, is_share=True),
        "exposed_fsdp": Expected(0.7, 1.0, is_share=True),
        "exposed_tensor": Expected(0.3, 0.5, is_share=True),
        "exposed_expert": Expected(0.7, 1.0, is_share=True),
        "exposed_dcn": Expected(0.3, 1.0, is_share=True),
        "slice_wait": Expected(0.018, 0.5),
        "layer_launch_s": Expected(5e-5, 1.0),
        "step_launch_s": Expected(5e-3, 1.0),
    }
)
FIXED: Mapping[str, float] = MappingProxyType({"memory_efficiency": 0.8619})
"""What the chip model's copies tell."""
GENERATION_SPREAD = 0.05
FRAMEWORK_SPREAD = 0.25
COMMON = "MaxText"
"""The framework whose steps the model predicts where none is named: most rows are its."""
OTHERS = 0.3
"""What a row of another framework weighs: its publication tells less of what was run."""
NOISE = 0.2
FAR = 1.0
"""An error of so many NOISE is believed half as much as a small one."""
_STEPS = 40
_CLOSE = 1e-3


@dataclass(frozen=True, slots=True)
class Fit:
    """Constants of all generations, and the slowness of those generations and frameworks that have
    rows."""

    constants: Mapping[str, float]
    generations: Mapping[str, float]
    frameworks: Mapping[str, float]

    def predicted_s(self, chosen: np.ndarray) -> np.ndarray:
        """Seconds of the chosen rows."""
        rows = [row for row, is_chosen in zip(training_rows(), chosen, strict=True) if is_chosen]
        slowness = [
            self.generations.get(row.generation, 1.0) * self.frameworks.get(row.framework, 1.0)
            for row in rows
        ]
        return _predicted_s(stacked(chosen), self.constants, np.array(slowness))


def column(name: str) -> np.ndarray:
    """A field of all rows."""
    return np.array([getattr(row, name) for row in training_rows()])


def fit(chosen: np.ndarray) -> Fit:
    """What the chosen rows tell; only those of use `fitted` are looked at."""
    return _fit(chosen.tobytes())


@cache
def _fit(chosen_bytes: bytes) -> Fit:
    return fit_anew(np.frombuffer(chosen_bytes, bool))


def fit_anew(chosen: np.ndarray) -> Fit:
    """What the chosen rows tell, though it was asked before."""
    problem = _problem(chosen & (column("use") == "fitted"))
    offsets = np.zeros(problem.size)
    damping, loss = 1.0, problem.loss(offsets)
    for _ in range(_STEPS):
        better, at = problem.step(offsets, damping)
        if at >= loss:
            damping *= 4
            continue
        gained, offsets, loss, damping = loss - at, better, at, damping / 5
        if gained < _CLOSE:
            break
    return problem.result(offsets)


@dataclass(frozen=True)
class _Problem:
    work: StepWork
    measured_s: np.ndarray
    weights: np.ndarray
    generations: tuple[str, ...]
    frameworks: tuple[str, ...]
    of_generation: np.ndarray
    of_framework: np.ndarray

    @property
    def size(self) -> int:
        return len(EXPECTED) + len(self.generations) + len(self.frameworks)

    def errors(self, offsets: np.ndarray) -> np.ndarray:
        """Of every row, in units of NOISE, for one set of offsets or several, one a line."""
        first, second = len(EXPECTED), len(EXPECTED) + len(self.generations)
        slow = GENERATION_SPREAD * offsets[..., first:second] @ self.of_generation.T
        slow = slow + FRAMEWORK_SPREAD * offsets[..., second:] @ self.of_framework.T
        predicted = _predicted_s(self.work, _constants(offsets), np.exp(slow))
        return np.asarray(np.log(predicted / self.measured_s) / NOISE)

    def loss(self, offsets: np.ndarray) -> float:
        cauchy = np.log1p((self.errors(offsets) / FAR) ** 2) * FAR**2
        return float(np.sum(self.weights * cauchy) + np.sum(offsets**2))

    def step(self, offsets: np.ndarray, damping: float) -> tuple[np.ndarray, float]:
        """One step of Levenberg and Marquardt, each row weighed as its error is believed."""
        errors = self.errors(offsets)
        slopes = (self.errors(offsets + 1e-4 * np.eye(self.size)) - errors).T / 1e-4
        believed = self.weights / (1 + (errors / FAR) ** 2)
        normal = slopes.T @ (believed[:, None] * slopes) + np.eye(self.size)
        gradient = slopes.T @ (believed * errors) + offsets
        moved = offsets - np.linalg.solve(normal + damping * np.diag(np.diag(normal)), gradient)
        return moved, self.loss(moved)

    def result(self, offsets: np.ndarray) -> Fit:
        first, second = len(EXPECTED), len(EXPECTED) + len(self.generations)
        generations = np.exp(GENERATION_SPREAD * offsets[first:second])
        frameworks = np.exp(FRAMEWORK_SPREAD * offsets[second:])
        constants = {name: float(np.squeeze(one)) for name, one in _constants(offsets).items()}
        return Fit(
            constants,
            dict(zip(self.generations, map(float, generations), strict=True)),
            dict(zip(self.frameworks, map(float, frameworks), strict=True)),
        )


def _problem(chosen: np.ndarray) -> _Problem:
    generation, framework, family = (
        column(name)[chosen] for name in ("generation", "framework", "family")
    )
    generations = tuple(sorted(set(generation)))
    frameworks = tuple(sorted(set(framework) - {COMMON}))
    count = np.array([np.sum(family == name) for name in family])
    return _Problem(
        work=stacked(chosen),
        measured_s=column("measured_s")[chosen],
        weights=count**-0.5 * np.mean(count**0.5) * np.where(framework == COMMON, 1.0, OTHERS),
        generations=generations,
        frameworks=frameworks,
        of_generation=np.column_stack([generation == name for name in generations]).astype(float),
        of_framework=np.column_stack(
            [np.zeros(len(framework)), *(framework == name for name in frameworks)]
        )[:, 1:].astype(float),
    )


def _constants(offsets: np.ndarray) -> dict[str, np.ndarray | float]:
    own = {
        name: expected.constant(offsets[..., number, None])
        for number, (name, expected) in enumerate(EXPECTED.items())
    }
    return {**own, **FIXED}


def _predicted_s(work: StepWork, constants: Mapping[str, Any], slowness: np.ndarray) -> np.ndarray:
    terms, _ = step_terms(work, TrainConstants(**constants, slowness=slowness))
    return np.asarray(sum(terms.values()))
