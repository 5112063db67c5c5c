"""A modelled figure: its value, the interval around it, its terms and its sources."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tpuctl.perfmodel.chip.numeric import Figure


@dataclass(frozen=True, slots=True)
class Estimate:
    """A modelled time in seconds; it is never one that was measured.

    `terms` need not add up to the value: some run beside each other. `sources` say where the
    constants come from, and what is known of a generation that nobody measured in public.
    `other_s` is the time if the compiler makes the other of its two choices, which the interval
    covers; it is the value where there is one choice, None for work that never has two.
    """

    label: ClassVar[str] = "modelled"

    value_s: Figure
    low_s: Figure
    high_s: Figure
    terms: Mapping[str, Figure]
    sources: tuple[str, ...]
    other_s: Figure | None = None

    def __str__(self) -> str:
        return _range(self.value_s, self.low_s, self.high_s, "s", self.label)


@dataclass(frozen=True, slots=True)
class EnergyEstimate:
    """A modelled energy in joules; `is_estimate` where no power of the generation is public."""

    label: ClassVar[str] = "modelled"

    value_j: Figure
    low_j: Figure
    high_j: Figure
    terms: Mapping[str, Figure]
    sources: tuple[str, ...]
    is_estimate: bool

    def __str__(self) -> str:
        label = f"{self.label}, an estimate" if self.is_estimate else self.label
        return _range(self.value_j, self.low_j, self.high_j, "J", label)


def _range(value: Figure, low: Figure, high: Figure, unit: str, label: str) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.size} figures, {label}"
    return f"{_scaled(value, unit)} {label} ({_scaled(low, unit)} to {_scaled(high, unit)})"


def _scaled(value: Any, unit: str) -> str:
    for prefix, size in (("", 1.0), ("m", 1e-3), ("u", 1e-6), ("n", 1e-9)):
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value / 1e-12:.3g} p{unit}"
