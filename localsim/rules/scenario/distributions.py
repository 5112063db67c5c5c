"""Amounts of a scenario, fixed or drawn: `60`, `{uniform: [30, 90]}`."""

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

Amount = float | Mapping[str, Any]
"""A number, or one distribution by name with its parameters."""

DISTRIBUTIONS: Mapping[str, tuple[tuple[str, ...], Callable[..., float]]] = {
    "uniform": (("low", "high"), lambda random, low, high: random.uniform(low, high)),
    "exponential": (("mean",), lambda random, mean: -mean * math.log(1.0 - random.random())),
    "normal": (("mean", "deviation"), lambda random, mean, sd: max(0.0, random.gauss(mean, sd))),
    "lognormal": (
        ("median", "sigma"),
        lambda random, median, sigma: median * math.exp(min(random.gauss(0.0, sigma), 50.0)),
    ),
}
"""Name -> what its parameters are called, and how it is drawn; never a negative amount."""


def draw_amount(amount: Amount, random: Callable[[], Random]) -> float:
    """The fixed number, or one draw from `random()`, which a fixed number does not call."""
    if not isinstance(amount, Mapping):
        return amount
    ((name, given),) = amount.items()
    _, draw = DISTRIBUTIONS[name]
    return draw(random(), *parameters(given))


def parameters(given: Any) -> Sequence[Any]:
    """The parameters of a distribution as a list; a single one may be written without brackets."""
    return given if isinstance(given, list | tuple) else [given]
