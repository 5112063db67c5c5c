"""The simulated cloud's clock: the one source of time for everything localsim emulates.

Real by default, faster with a scale, or manual: then it stands still until it is advanced.
"""

import asyncio
import time
from dataclasses import dataclass

MAX_ADVANCE_S = 10 * 365 * 86400.0
"""Further than any test looks, and short of where timestamps end."""
LATEST_S = 221_845_392_000.0
"""The year 9000. Timestamps end with the year 9999, and plans reach beyond the clock."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The time of a simulated clock at a real moment, and its speed."""

    now_s: float
    wall_s: float
    """Real seconds since the epoch."""
    scale: float
    """Simulated seconds a real one; 0 of a manual clock."""

    def later(self, wall_s: float) -> float:
        """The clock's time at another real moment, not before the reading."""
        return self.now_s + min(max(0.0, wall_s - self.wall_s) * self.scale, MAX_ADVANCE_S)


class Clock:
    """Seconds since the epoch, as the simulated cloud sees them."""

    def __init__(
        self,
        *,
        scale: float = 1.0,
        manual_start_s: float | None = None,
        last: ClockReading | None = None,
    ) -> None:
        """`scale` simulated seconds a real one; a manual clock starts at `manual_start_s`.

        A clock goes on from the `last` reading of an earlier run, if that is later: time has passed
        meanwhile, as fast as it did then.
        """
        self._scale = scale
        self._manual = manual_start_s is not None
        start_s = time.time() if manual_start_s is None else manual_start_s
        self._origin_s = start_s if last is None else max(start_s, last.later(time.time()))
        self._started = time.monotonic()
        self._advanced_s = 0.0
        self._moved = asyncio.Event()

    def now(self) -> float:
        """Simulated seconds since the epoch; never goes backwards, and ends at LATEST_S."""
        running = 0.0 if self._manual else (time.monotonic() - self._started) * self._scale
        return min(self._origin_s + running + self._advanced_s, LATEST_S)

    def advance(self, seconds: float) -> float:
        """Jump ahead, wake every sleeper, and return the new time."""
        if not 0 <= seconds <= MAX_ADVANCE_S:  # nan is neither
            raise ValueError(f"the clock moves ahead by 0 to {MAX_ADVANCE_S:.0f} s")
        if self.now() + seconds > LATEST_S:
            raise ValueError("the clock does not move beyond the year 9000")
        self._advanced_s += seconds
        self._moved.set()
        self._moved = asyncio.Event()
        return self.now()

    @property
    def advanced_s(self) -> float:
        """By how many seconds `advance` has moved it in all."""
        return self._advanced_s

    def reading(self) -> ClockReading:
        """Its reading now, from which the clock of the next run goes on."""
        return ClockReading(self.now(), time.time(), 0.0 if self._manual else self._scale)

    async def sleep_until(self, moment_s: float | None) -> None:
        """Return when `moment_s` is reached or the clock was advanced, whichever is first."""
        if moment_s is not None and moment_s <= self.now():
            return
        moved = self._moved
        real_s = None
        if moment_s is not None and moment_s <= LATEST_S and not self._manual:
            real_s = max(0.0, (moment_s - self.now()) / self._scale)
        try:
            await asyncio.wait_for(moved.wait(), real_s)
        except TimeoutError:
            return

    async def pause(self, seconds: float) -> None:
        """Return when this many simulated seconds have passed."""
        until_s = self.now() + seconds
        while self.now() < until_s:
            await self.sleep_until(until_s)
