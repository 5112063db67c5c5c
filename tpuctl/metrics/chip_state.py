"""What is known of a worker's chips at a moment: never a 0 where nothing was measured."""

from enum import StrEnum
from typing import NamedTuple

from tpuctl.metrics.samples import Sample, device_values

DUTY_CYCLE = "chip.duty_cycle_percent"
HELD = "chip.held"


class ChipState(StrEnum):
    """Who uses the chips of a worker."""

    LOADED = "loaded"
    """A program is loaded: libtpu reports how busy they are."""
    HELD = "held"
    """A process holds them and has loaded no program: libtpu reports nothing."""
    FREE = "free"
    SILENT = "silent"
    """The worker has not told anything for too long."""
    UNKNOWN = "unknown"
    """The sample has nothing of the chips."""


class ChipUse(NamedTuple):
    """The state of a worker's chips, and how busy they are where a program is loaded."""

    state: ChipState
    duty_cycle_percent: float | None = None
    """The mean of all chips."""
    silent_s: float = 0.0
    """Since when nothing was reported."""


def chip_use(sample: Sample, now_s: float, silent_after_s: float) -> ChipUse:
    """What the newest sample of a worker says of its chips now."""
    age_s = now_s - sample.time_s
    if age_s > silent_after_s:
        return ChipUse(ChipState.SILENT, silent_s=age_s)
    busy = device_values(sample, DUTY_CYCLE)
    if busy:
        return ChipUse(ChipState.LOADED, sum(busy) / len(busy))
    held = sample.values.get(HELD)
    if held is None:
        return ChipUse(ChipState.UNKNOWN)
    return ChipUse(ChipState.HELD if held else ChipState.FREE)
