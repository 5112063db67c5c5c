"""Autocheckpoint: asks programs to save before a planned end, and waits for them."""

import asyncio
import math

from localsim.clock import Clock
from localsim.workers.slices import Slices


class Autocheckpoints:
    """The slices whose programs have been told to save and end."""

    def __init__(self, slices: Slices, clock: Clock) -> None:
        """The time that programs are given passes on the clock."""
        self._slices = slices
        self._clock = clock
        self._deadlines_s: dict[str, float] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self.begun = asyncio.Event()
        """Set whenever somebody begins to wait for the clock; whoever looks at it clears it."""

    async def take(self, name: str, deadline_s: float) -> None:
        """Send every program of a slice SIGTERM; return when none runs, or at `deadline_s`.

        `deadline_s` is a moment of the clock, in simulated seconds of the epoch.
        """
        self._slices.terminate(name)
        running = asyncio.ensure_future(self._slices.idle(name))
        self._running[name] = running
        await asyncio.wait({running}, timeout=0)  # a slice without programs is idle at once
        self._deadlines_s[name] = deadline_s
        self.begun.set()
        try:
            while not running.done() and self._clock.now() < deadline_s:
                ticking = asyncio.ensure_future(self._clock.sleep_until(deadline_s))
                await asyncio.wait({running, ticking}, return_when=asyncio.FIRST_COMPLETED)
                ticking.cancel()
        finally:
            del self._running[name], self._deadlines_s[name]
            running.cancel()

    def give_up(self, name: str) -> None:
        """End the wait for a slice that is lost."""
        if running := self._running.get(name):
            running.cancel()

    def waits(self, name: str) -> bool:
        """Whether nothing happens to a slice until the clock moves on or its programs end."""
        return self._clock.now() < self._deadlines_s.get(name, -math.inf)
