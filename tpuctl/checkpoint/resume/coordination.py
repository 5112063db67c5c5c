"""The records by which runs, and the workers of a run, coordinate beside the steps.

Worker 0 announces the run before it looks, so that no run before it deletes anything any more, and
writes ROLLBACK when it is agreed from where the run goes on. Before that nobody writes a step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.format.manifest import decode, encode
from tpuctl.checkpoint.format.record_cache import read_record
from tpuctl.checkpoint.read.lineage import NO_ORIGIN, Origin, rollback_of
from tpuctl.checkpoint.read.step_history import History, read_history
from tpuctl.checkpoint.worker_run import WorkerRun
from tpuctl.errors import ConflictError, DeadlineError, IntegrityError, PreconditionError
from tpuctl.store import Entry, Store

_FIRST_WAIT_S = 0.01
_LAST_WAIT_S = 1.0
_TRIES = 10
_OF_RUNS = "R"
"""RUN, ROLLBACK and RESUME begin with it: one request lists all that runs say before they write."""

T = TypeVar("T")


def wait_for(probe: Callable[[], T | None], timeout_s: float) -> T | None:
    """Call `probe` ever more rarely until it returns something; None when the time is over."""
    deadline = time.monotonic() + timeout_s
    pause_s = _FIRST_WAIT_S
    while (found := probe()) is None:
        if time.monotonic() >= deadline:
            return None
        time.sleep(pause_s)
        pause_s = min(_LAST_WAIT_S, pause_s * 1.5)
    return found


def announce_run(store: Store, fence: int) -> None:
    """Put RUN for this fence; ConflictError when a run has used the fence already."""
    put_once(store, layout.run_key(fence), {"fence": fence})


def take_fence(store: Store) -> int:
    """Announce a run with the next free fence and return it: for one worker that names none.

    Raises PreconditionError when the last fence is used, ConflictError when other runs are faster.
    """
    for _ in range(_TRIES):
        names = (layout.parse_key(entry.key) for entry in store.list())
        fence = 1 + max((name.fence for name in names if name is not None), default=0)
        if fence > layout.LAST_FENCE:
            raise PreconditionError(
                f"{store.url} holds what a run with fence {layout.LAST_FENCE} wrote: the last one",
                hint="give the run another checkpoint directory",
            )
        try:
            announce_run(store, max(1, fence))
        except ConflictError:
            continue  # another run took it meanwhile
        return max(1, fence)
    raise ConflictError(f"runs begin in {store.url} faster than this one can")


def begin_lineage(run: WorkerRun) -> Origin:
    """Begin a lineage without a restore; returns its origin.

    Worker 0 writes ROLLBACK, the others wait for it. Raises PreconditionError when a later run has
    begun, DeadlineError when worker 0 is missing.
    """
    if run.worker_id == 0:
        check_fence(read_history(run.store), run.fence)
        write_rollback(run, NO_ORIGIN)
        return NO_ORIGIN
    return wait_for_origin(run)


def wait_for_origin(run: WorkerRun) -> Origin:
    """Wait, on a worker other than 0, for ROLLBACK; DeadlineError when it does not come in time."""
    origin = wait_for(lambda: read_rollback(run, list_run_records(run)), run.timeout_s)
    if origin is None:
        raise resume_timeout_error(run)
    return origin


def check_fence(history: History, fence: int) -> None:
    """Raise PreconditionError when the history has a run with a higher fence."""
    if history.newest_run > fence:
        raise _superseded_error(fence, history.newest_run)


def list_run_records(run: WorkerRun) -> dict[str, Entry]:
    """The records of runs by key; PreconditionError when a later run has begun."""
    entries = {entry.key: entry for entry in run.store.list(_OF_RUNS)}
    newest = _newest_run(entries)
    if newest > run.fence:
        raise _superseded_error(run.fence, newest)
    return entries


def write_rollback(run: WorkerRun, origin: Origin) -> None:
    """Put ROLLBACK with the origin of this run; ConflictError when it has named another before."""
    said = list_run_records(run)
    if read_rollback(run, said) == origin:
        return  # it was put when the answer to that was lost, and the program tries again
    record = {"fence": run.fence, "from": origin.step, "from_fence": origin.fence}
    put_once(run.store, layout.rollback_key(run.fence), record)


def read_rollback(run: WorkerRun, said: dict[str, Entry]) -> Origin | None:
    """The origin in this run's ROLLBACK, None while there is none; IntegrityError when damaged."""
    entry = said.get(layout.rollback_key(run.fence))
    if entry is None:
        return None
    origin = rollback_of(run.fence, read_record(run.store, entry, decode))
    if origin is None:
        raise IntegrityError(f"{entry.key} is not valid")
    return origin


def resume_timeout_error(run: WorkerRun) -> DeadlineError:
    """The error of a worker that waited in vain for worker 0."""
    return DeadlineError(f"worker 0 has not decided within {run.timeout_s:g} s where to resume")


def fence_used_error(store: Store, fence: int) -> ConflictError:
    """The error of a run whose fence another run has used."""
    return ConflictError(
        f"a run with fence {fence} has used {store.url} already",
        hint="every run, also a repeated one, needs a higher fence (TPUCTL_FENCE)",
    )


def put_once(store: Store, key: str, record: Mapping[str, Any]) -> None:
    """Put a record of a run; ConflictError when a run with its fence has put one before."""
    try:
        store.put_if_absent(key, encode(record))
    except PreconditionError as error:
        raise fence_used_error(store, record["fence"]) from error


def _newest_run(keys: Iterable[str]) -> int:
    names = [layout.parse_key(key) for key in keys]
    said = (layout.RUN, layout.ROLLBACK)
    return max((name.fence for name in names if name is not None and name.kind in said), default=0)


def _superseded_error(fence: int, by: int) -> PreconditionError:
    return PreconditionError(f"the run with fence {fence} is superseded by that with {by}")
