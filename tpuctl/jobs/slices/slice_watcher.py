"""Keeps looking at one job's slices: often while something moves, seldom while nothing does."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tpuctl.jobs.interfaces import Backends, Clocks
from tpuctl.jobs.slices import slice_api
from tpuctl.jobs.slices.pending_calls import ANSWER_TIMEOUT_S
from tpuctl.jobs.slices.slice_api import SliceObservation
from tpuctl.models.job import JobRecord

FASTEST_S = 0.5
SLOWEST_S = 10.0
STEADY_S = 15.0
"""While every worker runs and answers: a slice that goes away is heard from its workers first."""
MAX_LATE = 2
"""How many looks may hang at a time: each has a thread."""
SHARE = 0.05
"""The part of the time without a change: a wait of a minute is checked every three seconds."""


@dataclass(slots=True)
class SliceWatcher:
    """The newest observation of a job's slices, and when the next one is due."""

    backends: Backends
    clocks: Clocks
    record: Callable[[], JobRecord]
    is_steady: Callable[[], bool]
    changed: Callable[[], None]
    """Called after every look."""
    observation: SliceObservation = SliceObservation(0.0)
    _moved_s: float = 0.0
    _late: set[asyncio.Task[SliceObservation]] = field(default_factory=set)
    """Looks that nobody waits for any more."""
    _again: asyncio.Event = field(default_factory=asyncio.Event)

    def look_now(self) -> None:
        """Observe at once and often for a while: something was done or heard."""
        self._moved_s = self.clocks.monotonic()
        self._again.set()

    def report_trouble(self, text: str) -> None:
        """Note an error, which the next observation clears."""
        self.observation = replace(self.observation, trouble=text)

    async def keep_watching(self) -> None:
        """Observe again and again, for as long as the task lives."""
        self._moved_s = self.clocks.monotonic()
        while True:
            self._again.clear()
            before = self.observation
            await self._look()
            if _states(before) != _states(self.observation):
                self._moved_s = self.clocks.monotonic()
            self.changed()
            await self._pause()

    async def _look(self) -> None:
        """Look once; a call that hangs keeps the job from the next look for a while only."""
        self._late = {look for look in self._late if not look.done()}
        if len(self._late) >= MAX_LATE:
            await asyncio.wait(self._late, return_when=asyncio.FIRST_COMPLETED)
        tpu, record, now = self.backends.tpu, self.record(), self.clocks.now
        look = asyncio.create_task(asyncio.to_thread(slice_api.observe_slices, tpu, record, now))
        done, _ = await asyncio.wait({look}, timeout=ANSWER_TIMEOUT_S)
        if done:
            self.observation = look.result()
        else:
            self._late.add(look)
            self.report_trouble(f"the Cloud TPU API has not answered for {ANSWER_TIMEOUT_S:.0f} s")

    async def _pause(self) -> None:
        """Sleep until the next look is due, which may come nearer meanwhile."""
        looked_s = self.clocks.monotonic()
        while (left_s := looked_s + self._every_s() - self.clocks.monotonic()) > 0:
            if await wait_until_set(self._again, min(left_s, 1.0)):
                return

    def _every_s(self) -> float:
        if self.is_steady():
            return STEADY_S
        still_s = self.clocks.monotonic() - self._moved_s
        return min(SLOWEST_S, max(FASTEST_S, still_s * SHARE))


async def wait_until_set(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait for an event for at most `timeout_s`; returns whether it was set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            return await event.wait()
    return False


def _states(seen: SliceObservation) -> object:
    return dict(seen.requests), seen.node, seen.failed_workers, seen.attempt
