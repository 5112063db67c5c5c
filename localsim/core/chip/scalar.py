"""The scalar unit: it issues work to the other units, in order, and waits for what it needs."""

from tpuctl import catalog

UNITS = ("dma", "mxu", "vpu")

_CLOCK_HZ = 1e9
"""Where a generation's clock is not public; an issue is short against what it starts."""


class ScalarUnit:
    """The control of one kernel; every time is modelled, in seconds since it began.

    An issue takes a cycle, so there is at most one DMA a cycle. A unit works through what it was
    given one after the other, beside the other units; `busy_s` says how long each did.
    """

    def __init__(self, generation: str) -> None:
        """The beginning of a kernel, all units idle; raises catalog.UnknownError."""
        self.now_s = 0.0
        self.busy_s = dict.fromkeys(UNITS, 0.0)
        self._free_s = dict.fromkeys(UNITS, 0.0)
        self._cycle_s = 1 / (catalog.generation(generation).chip.clock_hz or _CLOCK_HZ)

    def issue(self, unit: str, duration_s: float) -> float:
        """Queue work on a unit; return when it will be done, in seconds since the beginning."""
        self.now_s += self._cycle_s
        self._free_s[unit] = max(self._free_s[unit], self.now_s) + duration_s
        self.busy_s[unit] += duration_s
        return self._free_s[unit]

    def wait(self, done_s: float) -> None:
        """Issue nothing more before that time."""
        self.now_s = max(self.now_s, done_s)

    def finish(self) -> float:
        """Wait for all units; return the seconds that the kernel took."""
        self.wait(max(self._free_s.values()))
        return self.now_s
