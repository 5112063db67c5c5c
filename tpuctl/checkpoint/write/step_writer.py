"""Saves the steps of one worker, one at a time, beside the program or while it waits."""

from __future__ import annotations

import sys
import threading
import weakref
from dataclasses import dataclass

from tpuctl.checkpoint.arrays.array_tree import Tree, flatten, leaf_paths
from tpuctl.checkpoint.format.commit_schema import Leaf
from tpuctl.checkpoint.format.record_cache import RecordCache
from tpuctl.checkpoint.parallel import BACKGROUND, lower_priority
from tpuctl.checkpoint.read.lineage import Origin
from tpuctl.checkpoint.worker_run import WorkerRun
from tpuctl.checkpoint.write.commit_protocol import (
    commit,
    is_committed,
    wait_for_commit,
    wait_for_next_round,
)
from tpuctl.checkpoint.write.garbage_collection import GarbageCollector
from tpuctl.checkpoint.write.part_writer import SaveRetryState, milliseconds_since, write_parts
from tpuctl.checkpoint.write.snapshot import CopyBuffers, Snapshot, copy_pieces, pieces, view_pieces
from tpuctl.errors import TpuctlError, UsageError

_CLEANING_S = 30.0
"""Who closes waits no longer for what is being deleted: the next run goes on with it."""


@dataclass
class SaveOutcome:
    """The failure of the last save, until somebody was told."""

    failure: Exception | None = None
    step_in_progress: int | None = None
    """The step that is being saved."""


class StepWriter:
    """Writes the steps of a run that has agreed from where it goes on."""

    def __init__(
        self,
        run: WorkerRun,
        origin: Origin,
        keep: int,
        records: RecordCache,
        memory: CopyBuffers | None = None,
    ) -> None:
        """Write nothing yet; the newest `keep` steps stay. Copies go to `memory`."""
        self._run = run
        self._origin = origin
        self._tries = SaveRetryState()
        self._memory = CopyBuffers() if memory is None else memory
        self._records = records
        self._cleaner = GarbageCollector(keep, self._records)
        self._thread: threading.Thread | None = None
        self._outcome = SaveOutcome()
        # A program that ends, or drops this, without another call is told nevertheless.
        weakref.finalize(self, _report, self._outcome)

    def save(self, step: int, tree: Tree, called_s: float, *, wait: bool) -> None:
        """Save a step, unless it is there; `called_s` is when `save` was called, by time.monotonic.

        With `wait`, return when it is durable; else it is copied and saved in a thread. Raises
        UsageError when steps do not grow.
        """
        if step < self._origin.step:
            raise UsageError(
                f"step {step} is not after step {self._origin.step}, from which this run continued",
                hint="count on from there, or save to another directory",
            )
        if step == self._origin.step or not self._begin_try(step):
            return
        try:
            snapshot = self._snapshot(step, tree, called_s, is_copied=not wait)
        except BaseException:
            # Interrupted, some threads may still copy: never into memory that is used again.
            self._memory = CopyBuffers()
            raise
        if wait:
            self._write(snapshot, self._tries)
            if self._run.worker_id:
                wait_for_commit(self._run, step, self._run.timeout_s)
            return
        # No daemon: a program that ends, well or not, ends when its step is there.
        self._thread = threading.Thread(
            target=self._write_in_background, args=(snapshot, self._tries), name="checkpoint-save"
        )
        self._thread.start()

    def wait(self) -> None:
        """Wait until nothing is being saved; raises the failure of the last save."""
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join()
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raise the failure of the last save, once; nothing while one is under way."""
        if self._thread is None or not self._thread.is_alive():
            failure, self._outcome.failure = self._outcome.failure, None
            if failure is not None:
                raise failure

    def close(self) -> None:
        """Wait until nothing is being saved, and at most 30 s for deletions."""
        try:
            self.wait()
        finally:
            self._cleaner.join(_CLEANING_S)

    def _begin_try(self, step: int) -> bool:
        """Count the try; False when the step is there: an earlier try succeeded after all."""
        tries = self._tries
        if step < tries.step:
            raise UsageError(f"step {step} after step {tries.step}: steps must grow")
        if step > tries.step:
            self._tries = SaveRetryState(step, is_open=True)
            return True
        if tries.is_open:
            if is_committed(self._run, step):
                return False
            tries.begin_again(tries.round + 1)
            return True
        if self._run.worker_id == 0:
            return False
        begun = wait_for_next_round(self._run, step, tries.round)
        if begun is not None:
            tries.begin_again(begun)
        return begun is not None

    def _snapshot(self, step: int, tree: Tree, called_s: float, *, is_copied: bool) -> Snapshot:
        structure, leaves = flatten(tree)
        own = pieces(leaves, leaf_paths(structure), self._run.worker_id, self._run.worker_count)
        return Snapshot(
            step=step,
            structure=structure,
            leaves=tuple(Leaf(leaf.dtype, leaf.shape, leaf.sharding, ()) for leaf in leaves),
            files=copy_pieces(own, self._memory) if is_copied else view_pieces(own),
            called_s=called_s,
            blocked_ms=milliseconds_since(called_s) if is_copied else None,
        )

    def _write_in_background(self, snapshot: Snapshot, tries: SaveRetryState) -> None:
        lower_priority(BACKGROUND)
        outcome = self._outcome
        outcome.step_in_progress = snapshot.step
        # Stands when the thread dies of a bug: a save that did not succeed is never silent.
        outcome.failure = TpuctlError(f"saving step {snapshot.step} was interrupted")
        try:
            self._write(snapshot, tries)
        except Exception as error:  # noqa: BLE001 (raised at the next call)
            outcome.failure = error
        else:
            outcome.failure = None
        finally:
            outcome.step_in_progress = None

    def _write(self, snapshot: Snapshot, tries: SaveRetryState) -> None:
        """Make the step durable: every worker its part, worker 0 the whole."""
        done = write_parts(self._run, snapshot, tries)
        if self._run.worker_id == 0:
            commit(self._run, snapshot, self._origin, done, self._records)
            self._cleaner.start_after(self._run, snapshot.step)
        tries.is_open = False


def _report(outcome: SaveOutcome) -> None:
    if outcome.step_in_progress is not None:
        step = outcome.step_in_progress
        said = f"step {step} was being saved when the program ended: it may be missing"
    elif outcome.failure is not None:
        said = f"the last save failed: {outcome.failure}"
    else:
        return
    sys.stderr.write(f"tpuctl: {said}\n")
