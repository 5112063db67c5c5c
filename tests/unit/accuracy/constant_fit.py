"""The constants of the chip model, fitted to the rows of use `fitted` and to no others.

Of a generation are fitted only those that its rows can tell; the others are the geometric mean of
the generations that tell them. What is made small is the mean of the logarithm's error, nearly the
absolute one, so that a kernel that fell off a cliff of compiler tiling weighs as any other row.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from tpuctl import catalog
from tpuctl.perfmodel.chip.calibration import PER_DEVICE, Constants, for_devices
from tpuctl.perfmodel.chip.collectives import S_PER_HOP
from unit.accuracy import published_rows
from unit.accuracy.published_rows import Table
from unit.accuracy.simplex import smallest

NOT_POOLED = ("pinned_compute_efficiency",)
"""What one generation tells says nothing of another: not every clock can be pinned."""

Told = dict[str, dict[str, float]]
"""Generation -> constants that its rows told."""

TOLD: Mapping[str, Mapping[tuple[str, ...], tuple[str, ...]]] = MappingProxyType(
    {
        "tpu7x": {
            ("gemm", "memory"): (
                "launch_s",
                "compute_efficiency",
                "memory_efficiency",
            ),
            ("gemm pinned",): ("pinned_compute_efficiency",),
            ("collective",): ("collective_step_s", "ici_efficiency"),
        },
        "v6e": {
            ("memory",): ("memory_efficiency",),
            ("gemm",): ("compute_efficiency",),
            ("collective",): ("ici_efficiency",),
            ("dcn",): ("dcn_efficiency",),
        },
        "v4": {
            ("memory",): ("dma_launch_s", "memory_efficiency"),
            ("gemm", "elementwise"): ("launch_s", "conversion_bytes_per_s"),
            ("gemm",): ("reconverted_rows",),
        },
        "v5e": {("collective",): ("ici_efficiency",)},
        "v2": {("collective",): ("ici_efficiency",)},
    }
)
"""Generation -> kinds of rows -> what they tell, in the order of fitting."""

WITHOUT_CONVERSION = ("v6e", "tpu7x")
"""v6e's float16 rows of use `development` take no longer than bfloat16 would; v4's much longer."""

UNTOLD: Mapping[str, float] = MappingProxyType(
    {
        "launch_s": 1e-6,
        "compute_efficiency": 0.8,
        "memory_efficiency": 0.8,
        "collective_step_s": S_PER_HOP,
        "ici_efficiency": 0.8,
        "dcn_efficiency": 0.8,
        "dma_launch_s": 1e-6,
        "reconverted_rows": 128,
    }
)
"""Where a fit begins, and what stays where no row tells."""

_BEGIN: Mapping[str, float] = MappingProxyType(
    {"conversion_bytes_per_s": 1e12, "pinned_compute_efficiency": 0.9}
)
"""Where the fit of these begins; where no row tells them, there are none."""

_ROUND = 0.02
"""Relative error below which the loss is a parabola: what repeated measurements differ by."""


def fit(data: Sequence[Table]) -> Told:
    """What the rows of every generation tell: twice around, as each needs some of the others'."""
    told: Told = {}
    for generation in (*TOLD, *TOLD):
        told[generation] = refit(generation, data, told)
    return told


def refit(generation: str, data: Sequence[Table], others: Told) -> dict[str, float]:
    """What the rows of one generation tell beside the others."""
    others = {one: values for one, values in others.items() if one != generation}
    own: dict[str, float] = {}
    for kinds, names in TOLD.get(generation, {}).items():
        rows = [one for one in data if one.generation == generation and one.tells in kinds]
        rows = [one for one in rows if one.uses.size]
        begin = for_devices(pooled(others), _devices(generation)) | own
        if rows:
            count = sum(one.uses.size for one in rows)  # one row cannot tell two constants
            own |= _fit(rows, begin, _to_fit(names, others)[:count])
    return own


def constants(generation: str, told: Told) -> Constants:
    """What the model has for a generation: its own, else the others'; as the package has them."""
    values = for_devices(pooled(told), _devices(generation)) | told.get(generation, {})
    return _constants(generation, {name: rounded(value) for name, value in values.items()})


def rounded(value: float) -> float:
    """Four digits: fits on two machines agree in more."""
    return float(f"{value:.4g}")


def pooled(told: Told) -> dict[str, float]:
    """The geometric mean of the generations that tell a constant; of one device, if of devices."""
    means = dict(UNTOLD)
    for name in {name for values in told.values() for name in values if name not in NOT_POOLED}:
        values = [
            own[name] / (_devices(generation) if name in PER_DEVICE else 1)
            for generation, own in told.items()
            if name in own
        ]
        means[name] = float(np.exp(np.mean(np.log(values))))
    return means


def _devices(generation: str) -> int:
    return catalog.generation(generation).devices_per_chip


def fitted_rows() -> list[Table]:
    """All that may be fitted."""
    return [table.of_use("fitted") for table in published_rows.tables()]


def _to_fit(names: tuple[str, ...], others: Told) -> tuple[str, ...]:
    """Where no bfloat16 tells the multiplying, float16 tells it and the converting together."""
    is_told = any("compute_efficiency" in values for values in others.values())
    is_alone = "conversion_bytes_per_s" in names and not is_told
    return (*names, "compute_efficiency") if is_alone else names


def _constants(generation: str, values: Mapping[str, float]) -> Constants:
    known: dict[str, float | None] = {
        "conversion_bytes_per_s": None,
        **dict.fromkeys(NOT_POOLED),
        **values,
    }
    if generation in WITHOUT_CONVERSION:
        known["conversion_bytes_per_s"] = None
    return Constants(**known)


def _fit(
    rows: Sequence[Table], begin: Mapping[str, float], names: tuple[str, ...]
) -> dict[str, float]:
    generation = rows[0].generation

    def loss(logs: np.ndarray) -> float:
        tried = _constants(generation, {**begin, **dict(zip(names, np.exp(logs), strict=True))})
        errors = [np.log(table.predicted_s(tried) / table.measured_s) for table in rows]
        return float(np.mean(np.hypot(np.concatenate(errors), _ROUND)))

    start = np.log([max(begin.get(name, _BEGIN.get(name, 1.0)), 1e-6) for name in names])
    return dict(zip(names, map(float, np.exp(smallest(loss, start))), strict=True))
