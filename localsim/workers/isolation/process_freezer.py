"""Freezes or slows a worker's processes by SIGSTOP, for good or most of the time."""

import asyncio
import os
import signal
from collections.abc import Callable

from localsim.workers import processes
from localsim.workers.processes import Process

PERIOD_S = 0.3
"""Of which a slow worker's programs run a part; each one costs a look at the process table."""


class ProcessFreezer:
    """Freezes or slows the processes of one worker."""

    def __init__(self, belongs: Callable[[], Callable[[Process], bool]]) -> None:
        """`belongs` makes a judge of who is the worker's now."""
        self._belongs = belongs
        self._is_frozen = False
        self._crawling: asyncio.Task[None] | None = None

    def admit(self, pid: int) -> None:
        """Freeze a new program that has not begun yet, if the others are frozen."""
        if self._is_frozen:
            os.kill(pid, signal.SIGSTOP)

    async def freeze(self, *, frozen: bool) -> None:
        """Stop every process, or let all go on."""
        self._is_frozen = frozen
        if not frozen:
            processes.signal_processes(await self._found(), signal.SIGCONT)
            return
        stopped: set[int] = set()
        # A process that has been sent SIGSTOP forks no more: what it forked before is found next.
        while new := [each for each in await self._found() if each.pid not in stopped]:
            processes.signal_processes(new, signal.SIGSTOP)
            stopped |= {each.pid for each in new}

    def slow_down(self, factor: float | None) -> None:
        """Let processes run 1/`factor` of the time, None always."""
        if self._crawling:
            self._crawling.cancel()
            self._crawling = None
        if factor is not None:
            self._crawling = asyncio.create_task(self._crawl(PERIOD_S / factor))

    def end(self) -> None:
        """Change no process any more; frozen ones stay frozen."""
        self._is_frozen = True
        self.slow_down(None)

    async def _crawl(self, run_s: float) -> None:
        held: list[Process] = []
        try:
            while True:
                await asyncio.sleep(run_s)
                held = await self._found()
                processes.signal_processes(held, signal.SIGSTOP)
                await asyncio.sleep(PERIOD_S - run_s)
                self._release(held)
        finally:
            self._release(held)

    def _release(self, held: list[Process]) -> None:
        if not self._is_frozen:
            processes.signal_processes(held, signal.SIGCONT)

    async def _found(self) -> list[Process]:
        """The worker's processes; the process table is read beside the event loop."""

        def look() -> list[Process]:
            belongs = self._belongs()
            return [process for process in processes.list_processes() if belongs(process)]

        return await asyncio.to_thread(look)
