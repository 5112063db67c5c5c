"""Runs side by side: so many at a time, each in a thread, their news in one queue."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from queue import SimpleQueue
from typing import NamedTuple

from tpuctl.errors import TpuctlError
from tpuctl.models.job import JobRecord
from tpuctl.models.rehearsal.evidence import RunEvidence
from tpuctl.operations.rehearse.events import RunProgressed, RunStarted
from tpuctl.operations.rehearse.rehearsed_run import (
    RunHooks,
    RunPlan,
    RunStoppedError,
    RunUsage,
    carry_out_run,
)

MEMORY_SHARE = 0.8
"""Of what is free: the rest of the machine goes on."""
MOST_SIDE_BY_SIDE = 32
LOOK_S = 0.5
"""Between two looks whether cores are idle."""


class RunEnded(NamedTuple):
    """A run is over; `error` says why it could not begin, when it did not."""

    plan: RunPlan
    evidence: RunEvidence | None = None
    usage: RunUsage | None = None
    error: TpuctlError | None = None


class RunSkipped(NamedTuple):
    """A run was not begun, as it would not have ended in time."""

    plan: RunPlan


class _RunBroken(NamedTuple):
    """A bug ended the thread of a run."""

    error: BaseException


RunNews = RunStarted | RunProgressed | RunEnded | RunSkipped
CarryOut = Callable[[RunPlan, RunHooks], tuple[RunEvidence, RunUsage]]


@dataclass(frozen=True, slots=True)
class RunPool:
    """How many runs are made at a time, and which of them still fit into the time."""

    side_by_side: int
    may_begin: Callable[[], bool] = lambda: True
    carry_out: CarryOut = carry_out_run
    most: int = 0
    """So many run at a time while cores are idle, where that is more than `side_by_side`."""
    has_spare_cores: Callable[[], bool] = lambda: False

    def run_all(self, plans: Sequence[RunPlan]) -> Iterator[RunNews]:
        """Make every run, and yield what happens; closing the iterator ends all of them."""
        news: SimpleQueue[RunNews | _RunBroken] = SimpleQueue()
        waiting, left, stop = deque(plans), len(plans), threading.Event()
        count = min(max(self.side_by_side, self.most), left)
        threads = [
            threading.Thread(target=self._work, args=(number, waiting, stop, news), daemon=True)
            for number in range(count)
        ]
        try:
            for thread in threads:
                thread.start()
            while left:
                item = news.get()
                if isinstance(item, _RunBroken):
                    raise item.error
                left -= isinstance(item, (RunEnded, RunSkipped))
                yield item
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def _work(
        self,
        number: int,
        waiting: deque[RunPlan],
        stop: threading.Event,
        news: "SimpleQueue[RunNews | _RunBroken]",
    ) -> None:
        """Make one run after the other; beyond `side_by_side` only while cores are idle."""
        while waiting and not stop.is_set():
            if number >= self.side_by_side and not self.has_spare_cores():
                stop.wait(LOOK_S)
                continue
            try:
                plan = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            self._run(plan, stop, news)

    def _run(
        self, plan: RunPlan, stop: threading.Event, news: "SimpleQueue[RunNews | _RunBroken]"
    ) -> None:
        if not self.may_begin():
            news.put(RunSkipped(plan))
            return
        news.put(RunStarted(plan.name))
        hooks = RunHooks(partial(_tell_progress, plan.name, news.put), stop)
        try:
            news.put(RunEnded(plan, *self.carry_out(plan, hooks)))
        except RunStoppedError:
            return
        except TpuctlError as error:
            news.put(RunEnded(plan, error=error))
        except BaseException as error:  # noqa: BLE001 (it is raised where somebody waits)
            news.put(_RunBroken(error))


def runs_that_fit(cores: int, run_cores: float) -> int:
    """How many runs keep all cores busy, by what one has used of them."""
    return max(1, min(ceil(cores / max(run_cores, 0.1)), MOST_SIDE_BY_SIDE))


def runs_in_memory(free_bytes: int | None, run_bytes: int) -> int:
    """How many runs have room in the memory at a time; at least one tries to."""
    if free_bytes is None or not run_bytes:
        return MOST_SIDE_BY_SIDE
    return max(1, min(int(free_bytes * MEMORY_SHARE) // run_bytes, MOST_SIDE_BY_SIDE))


def _tell_progress(name: str, put: Callable[[RunNews], None], job: JobRecord) -> None:
    attempt = job.attempt
    number, step = (attempt.number, attempt.last_step) if attempt else (0, 0)
    put(RunProgressed(name, job.state, step, number))
