"""Constants that were fitted to public measurements, at most six for one generation.

The catalog has the constants that were fitted to a generation's own rows. `pooled.json` has the
value of every constant for generations without such rows (the geometric mean of the others), and
the spreads. The fit that `docs/accuracy.md` describes writes both.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tpuctl import catalog
from tpuctl.perfmodel.chip.numeric import Figure

PER_DEVICE = ("collective_step_s",)
"""Constants that are pooled as those of one device: the devices of a chip take turns."""

_POOLED = Path(__file__).with_name("pooled.json")


@dataclass(frozen=True, slots=True)
class Constants:
    """The fitted constants of one generation; an efficiency is a share (0 to 1) of the peak.

    `dma_launch_s` is to issue a DMA and hear that it ended: no kernel is launched for it.
    `conversion_bytes_per_s` is how fast the vector unit turns float16, which no MXU multiplies,
    into what it does: bytes of float16 read and written; None where it takes no time of its own.
    `reconverted_rows` is how many rows of a result share one conversion of an operand where the
    compiler chooses small tiles. `pinned_compute_efficiency` is `compute_efficiency` with the clock
    pinned to its highest state; None where no such state is public.
    `collective_step_s` is one message from a chip to the next in a collective: where a chip is two
    devices of JAX, one after the other. `dcn_efficiency` is of the network between slices.
    """

    launch_s: float
    compute_efficiency: float
    memory_efficiency: float
    conversion_bytes_per_s: float | None
    reconverted_rows: float
    pinned_compute_efficiency: float | None
    collective_step_s: float
    ici_efficiency: float
    dcn_efficiency: float
    dma_launch_s: float


@dataclass(frozen=True, slots=True)
class Spread:
    """The interval of measured over predicted time on rows that were not fitted."""

    low: Figure
    high: Figure


@cache
def constants(generation: str) -> Constants:
    """The constants of a generation; raises catalog.UnknownError."""
    known = catalog.generation(generation)
    own = {name: row.value for name, row in known.calibration.items()}
    return Constants(**for_devices(_pooled()["constants"], known.devices_per_chip) | own)


def for_devices(pooled: Mapping[str, Any], devices_per_chip: int) -> dict[str, Any]:
    """Pooled constants for chips of so many devices: what is pooled of one device, times them."""
    return {
        name: value * devices_per_chip if name in PER_DEVICE else value
        for name, value in pooled.items()
    }


CLOCKS = ("default", "pinned")


def at_clock(generation: str, fitted: Constants, clock: str) -> Constants:
    """The constants at a state of the clock, default or pinned.

    Raises ValueError for another name, and where no measurement at a pinned clock is public.
    """
    if clock not in CLOCKS:
        raise ValueError(f"unknown clock {clock!r}; one of: {', '.join(CLOCKS)}")
    if clock == "default":
        return fitted
    if fitted.pinned_compute_efficiency is None:
        raise ValueError(f"no public measurement of {generation} at a pinned clock")
    return replace(fitted, compute_efficiency=fitted.pinned_compute_efficiency)


@cache
def spread(kind: str) -> Spread:
    """The spread of `gemm regular`, `gemm irregular`, `gemm irregular large`, `memory`,
    `elementwise`, `collective` or `dcn`.
    """
    row = _pooled()["spread"][kind]
    return Spread(low=float(row["low"]), high=float(row["high"]))


@cache
def sources(generation: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """A sentence for each named constant of a generation: what it was fitted to."""
    own = catalog.generation(generation).calibration
    return tuple(_source(generation, name, own[name].rows if name in own else 0) for name in names)


def _source(generation: str, name: str, rows: int) -> str:
    if rows == 0:
        return f"{name}: no public measurement on {generation}, as fitted on other generations"
    return f"{name}: fitted to {rows} public measurements on {generation} (docs/accuracy.md)"


@cache
def _pooled() -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(_POOLED.read_text(encoding="utf-8"))
    return document
