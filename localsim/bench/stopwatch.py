"""How long a call takes on this machine, and the row with the modelled time beside it."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from tpuctl.perfmodel import chip as model

Clock = Callable[[], float]
ResultRow = Mapping[str, Any]
ENOUGH_S = 0.4
"""What one measurement may take, its first two calls apart."""
MOST_CALLS = 50


def median_s(call: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    """Return the median seconds of as many calls as ENOUGH_S has room for, after one more."""
    elapsed_s(call, clock)
    times_s = [elapsed_s(call, clock)]
    times_s += [elapsed_s(call, clock) for _ in range(more_calls(times_s[0]))]
    return statistics.median(times_s)


def more_calls(first_s: float) -> int:
    """Return how many calls follow a first one: an even number, so that the median was timed."""
    return 2 * int(min(MOST_CALLS, ENOUGH_S / max(first_s, 1e-9)) / 2)


def elapsed_s(call: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    """Return the seconds of one call."""
    began_s = clock()
    call()
    return clock() - began_s


def comparison_row(
    measured_s: float, modelled: model.Estimate, work: float, unit: str
) -> ResultRow:
    """Return both times in seconds, and `work` a second of each; `unit` is ops or bytes."""
    return {
        "host_measured_s": measured_s,
        f"host_measured_{unit}_per_s": work / measured_s,
        "chip_modelled_s": modelled.value_s,
        "chip_modelled_low_s": modelled.low_s,
        "chip_modelled_high_s": modelled.high_s,
        f"chip_modelled_{unit}_per_s": work / modelled.value_s,
    }
