"""Runs side by side: so many at a time, each in a thread, their news in one queue."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
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

    def run_all(self, plans: Sequence[RunPlan]) -> Iterator[RunNews]:
        """Make every run, and yield what happens; closing the iterator ends all of them."""
        news: SimpleQueue[RunNews | _RunBroken] = SimpleQueue()
        stop, left = threading.Event(), len(plans)
        with ThreadPoolExecutor(self.side_by_side) as threads:
            try:
                for plan in plans:
                    threads.submit(self._run, plan, stop, news)
                while left:
                    item = news.get()
                    if isinstance(item, _RunBroken):
                        raise item.error
                    left -= isinstance(item, (RunEnded, RunSkipped))
                    yield item
            finally:
                stop.set()
                threads.shutdown(cancel_futures=True)

    def _run(
        self, plan: RunPlan, stop: threading.Event, news: "SimpleQueue[RunNews | _RunBroken]"
    ) -> None:
        if stop.is_set():
            return
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


def runs_that_fit(cores: int, free_bytes: int | None, run_bytes: int, run_cores: float) -> int:
    """How many runs the machine carries at a time, by what one has used of memory and cores."""
    by_cores = ceil(cores / max(run_cores, 0.1))
    by_memory = by_cores
    if free_bytes is not None and run_bytes:
        by_memory = int(free_bytes * MEMORY_SHARE) // run_bytes
    return max(1, min(by_cores, by_memory, MOST_SIDE_BY_SIDE))


def _tell_progress(name: str, put: Callable[[RunNews], None], job: JobRecord) -> None:
    attempt = job.attempt
    number, step = (attempt.number, attempt.last_step) if attempt else (0, 0)
    put(RunProgressed(name, job.state, step, number))
