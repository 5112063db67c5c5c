"""Deletes what a directory no longer needs, COMMIT first, so that no step is half there."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.format.record_cache import RecordCache
from tpuctl.checkpoint.parallel import BACKGROUND, lower_priority, parallel_map
from tpuctl.checkpoint.read.step_history import COMPLETE, CheckpointStep, History, read_history
from tpuctl.checkpoint.resume.coordination import check_fence
from tpuctl.checkpoint.worker_run import WorkerRun
from tpuctl.errors import PreconditionError
from tpuctl.store import Entry, Store

_AT_ONCE = 8


@dataclass(frozen=True)
class DeletionPlan:
    """The steps to delete, and the objects that belong to no step."""

    steps: tuple[CheckpointStep, ...]
    leftovers: tuple[Entry, ...]


class GarbageCollector:
    """Deletes, in one thread beside the program, what a run no longer needs."""

    def __init__(self, keep: int, records: RecordCache) -> None:
        """Delete nothing yet; the newest `keep` COMPLETE steps stay."""
        self._keep = keep
        self._records = records
        self._lock = threading.Lock()
        self._wanted: int | None = None
        self._thread: threading.Thread | None = None

    def start_after(self, run: WorkerRun, step: int) -> None:
        """Collect garbage now that the step is committed; a thread at work goes round once more."""
        with self._lock:
            self._wanted = step
            if self._thread is not None:
                return
            thread = threading.Thread(
                target=self._clean, args=(run,), name="checkpoint-clean", daemon=True
            )
            # While a program ends, some versions of Python start none: the next run cleans.
            with contextlib.suppress(RuntimeError):
                thread.start()
                self._thread = thread

    def join(self, timeout_s: float) -> None:
        """Wait, at most `timeout_s`, until nothing is left to delete."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def _clean(self, run: WorkerRun) -> None:
        lower_priority(BACKGROUND)
        while (step := self._next()) is not None:
            try:
                collect_garbage(run, self._keep, step, self._records)
            except PreconditionError:
                continue  # a later run has taken over, and cleans
            except Exception as error:  # noqa: BLE001 (only space is not given back)
                warnings.warn(f"old checkpoints were not deleted: {error}", stacklevel=1)

    def _next(self) -> int | None:
        with self._lock:
            step, self._wanted = self._wanted, None
            if step is None:
                self._thread = None
            return step


def plan_deletions(history: History, keep: int, fence: int, newest_own: int = -1) -> DeletionPlan:
    """What the run with that fence may delete when it keeps `keep` steps, at least one.

    Steps of its own before `newest_own` that have no COMMIT will never have one.
    """
    steps = tuple(_superfluous_steps(history, max(1, keep)))
    kept = [step for step in history.steps if step not in steps]
    leftovers = [
        entry
        for step in kept
        for entry in step.entries
        if _is_leftover(step, entry, fence, newest_own)
    ]
    leftovers += [entry for entry in history.coordination_entries if _fence_of(entry) < fence]
    return DeletionPlan(steps, tuple(leftovers))


def collect_garbage(run: WorkerRun, keep: int, newest_own: int, records: RecordCache) -> None:
    """Delete what a run may delete once it has committed `newest_own`.

    Raises PreconditionError when a later run has begun. That is asked of the same listing that the
    plan is made of: a run that announces itself later sees all that stays.
    """
    history = read_history(run.store, records)
    check_fence(history, run.fence)
    delete_planned(run.store, plan_deletions(history, keep, run.fence, newest_own))


def delete_planned(store: Store, planned: DeletionPlan) -> None:
    """Delete the oldest steps first, then what is left over."""
    for step in planned.steps:
        delete_step(store, step)
    parallel_map(lambda entry: delete_leftover(store, entry), planned.leftovers, threads=_AT_ONCE)


def delete_step(store: Store, step: CheckpointStep) -> bool:
    """Delete COMMIT, if it is the generation that was seen, then the rest; whether it was.

    A step that was pinned meanwhile stays.
    """
    if step.committed is None or store.head(layout.pin_key(step.step)) is not None:
        return False
    if not delete_leftover(store, step.committed):
        return False
    rest = [entry for entry in step.entries if entry != step.committed]
    parallel_map(lambda entry: delete_leftover(store, entry), rest, threads=_AT_ONCE)
    return True


def delete_leftover(store: Store, entry: Entry) -> bool:
    """Delete an object if it is the generation that was seen; whether it was."""
    try:
        return store.delete(entry.key, generation=entry.generation)
    except PreconditionError:
        return False


def _superfluous_steps(history: History, keep: int) -> Iterator[CheckpointStep]:
    """Oldest first: those in whose stead there are `keep` COMPLETE ones."""
    good = [step for step in history.steps if step.state == COMPLETE and not step.is_doubtful]
    for step in history.steps:
        stays = step.committed is None or step.is_pinned or step.is_doubtful
        if not stays and sum(_replaces(other, step) for other in good) >= keep:
            yield step


def _replaces(good: CheckpointStep, step: CheckpointStep) -> bool:
    """A later step; for one that a run has abandoned, perhaps by mistake, any of a later run."""
    return good.step > step.step or (step.is_rolled_back and _fence(good) > _fence(step))


def _fence(step: CheckpointStep) -> int:
    return layout.LAST_FENCE if step.commit is None else step.commit.fence


def _is_leftover(step: CheckpointStep, entry: Entry, fence: int, newest_own: int) -> bool:
    """Whether nothing is made of the object, and never will be."""
    name = layout.parse_key(entry.key)
    if name is None:
        return False
    if name.kind in (layout.BAD, layout.VERIFIED):
        return step.committed is None or name.generation != step.committed.generation
    if name.kind not in (layout.SHARD, layout.DONE) or _is_named(step, entry, name.fence):
        return False
    return name.fence < fence or (name.fence == fence and step.step < newest_own)


def _is_named(step: CheckpointStep, entry: Entry, fence: int) -> bool:
    """Whether COMMIT names it, or may: one that cannot be read could name any."""
    if step.committed is None:
        return False
    if step.commit is None:
        return True
    paths = {stored.path for stored in step.commit.objects}
    return entry.key in paths or (fence == step.commit.fence and "/done_" in entry.key)


def _fence_of(entry: Entry) -> int:
    name = layout.parse_key(entry.key)
    return layout.LAST_FENCE if name is None else name.fence
