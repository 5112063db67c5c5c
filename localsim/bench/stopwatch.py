"""How long a call takes: seconds of this machine, and only those."""

import statistics
import time
from collections.abc import Callable

Clock = Callable[[], float]
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
