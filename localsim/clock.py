"""The simulated cloud's clock: the one source of time for everything localsim emulates.

Real by default, faster with a scale, or manual: then it stands still until it is advanced.
"""

import asyncio
import time

MOST_S = 10 * 365 * 86400.0
"""Further than any test looks, and short of where timestamps end."""


class Clock:
    """Seconds since the epoch, as the simulated cloud sees them."""

    def __init__(self, *, scale: float = 1.0, manual_start_s: float | None = None) -> None:
        """`scale` simulated seconds a real one; a manual clock starts at `manual_start_s`."""
        self._scale = scale
        self._manual = manual_start_s is not None
        self._origin_s = time.time() if manual_start_s is None else manual_start_s
        self._started = time.monotonic()
        self._advanced_s = 0.0
        self._moved = asyncio.Event()

    def now(self) -> float:
        """Simulated seconds since the epoch; never goes backwards."""
        running = 0.0 if self._manual else (time.monotonic() - self._started) * self._scale
        return self._origin_s + running + self._advanced_s

    def advance(self, seconds: float) -> float:
        """Jump ahead, wake every sleeper, and return the new time."""
        if not 0 <= seconds <= MOST_S:  # nan is neither
            raise ValueError(f"the clock moves ahead by 0 to {MOST_S:.0f} s")
        self._advanced_s += seconds
        self._moved.set()
        self._moved = asyncio.Event()
        return self.now()

    async def sleep_until(self, moment_s: float | None) -> None:
        """Return when `moment_s` is reached or the clock was advanced, whichever is first."""
        moved = self._moved
        real_s = None
        if moment_s is not None and not self._manual:
            real_s = max(0.0, (moment_s - self.now()) / self._scale)
        try:
            await asyncio.wait_for(moved.wait(), real_s)
        except TimeoutError:
            return
