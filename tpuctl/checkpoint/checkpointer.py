"""What a training program holds: save in the background, restore the newest good step."""

from __future__ import annotations

import threading
from types import TracebackType

from tpuctl.checkpoint import layout
from tpuctl.checkpoint.agreement import NO_STEP, announce, check_fence, decide, follow
from tpuctl.checkpoint.history import COMPLETE, read_history
from tpuctl.checkpoint.restoring import Restored, newest_good
from tpuctl.checkpoint.saving import Run, Snapshot, commit, prune, write_part
from tpuctl.checkpoint.split import own_parts, split
from tpuctl.checkpoint.tree import Tree, flatten
from tpuctl.errors import TpuctlError, UsageError
from tpuctl.store import open_store


class Checkpointer:
    """Checkpoints of one run, as one of its workers sees them; every worker has one.

    `fence` numbers the runs that use the directory: a later run has a higher one.
    """

    def __init__(  # noqa: PLR0913 (each one a fact of the run)
        self,
        directory: str,
        *,
        worker_id: int,
        worker_count: int,
        fence: int,
        keep: int = 3,
        every: int = 1,
        timeout_s: float = 120.0,
        client: object | None = None,
    ) -> None:
        """Nothing is read or written yet; `timeout_s` bounds each wait for another worker."""
        if not (0 <= worker_id < worker_count and 0 <= fence <= layout.LAST_FENCE and every > 0):
            raise UsageError(f"worker {worker_id} of {worker_count}, fence {fence}, every {every}?")
        self._run = Run(
            open_store(directory, client=client), worker_id, worker_count, fence, timeout_s
        )
        self._keep = keep
        self._every = every
        self._parent: int | None = None
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    def restore(self, step: int | None = None) -> Restored | None:
        """Where this run goes on: the newest good step or that one; None when there is none yet.

        Worker 0 verifies, marks what is bad and decides, the others wait for it.
        """
        self.wait()
        run = self._run
        if self._parent is not None:
            raise UsageError("restore once, before the first save")
        if run.worker_id == 0:
            restored = decide(run.store, run.fence, step)
            self._parent = NO_STEP if restored is None else restored.step
            return restored
        self._parent = follow(run.store, run.fence, run.timeout_s)
        return None if self._parent == NO_STEP else newest_good(run.store, self._parent)

    def latest(self) -> int | None:
        """The newest step that is complete as far as the listing tells, or None."""
        steps = read_history(self._run.store).visible()
        return next((step.step for step in steps if step.state == COMPLETE), None)

    def save(self, step: int, tree: Tree) -> bool:
        """Copy the own parts and save them in the background; False when the step is not due."""
        if not 0 <= step <= layout.LAST_STEP:
            raise UsageError(f"{step} cannot be a step")
        self.wait()
        if step % self._every:
            return False
        if self._parent is None:
            self._begin()
        structure, leaves = flatten(tree)
        run = self._run
        snapshot = Snapshot(
            step=step,
            parent=NO_STEP if self._parent is None else self._parent,
            structure=structure,
            leaves=split(leaves, run.worker_count),
            parts=own_parts(leaves, run.worker_id, run.worker_count),
        )
        # A daemon: a program that fails must not wait for workers that failed before it.
        self._thread = threading.Thread(
            target=self._save, args=(snapshot,), name=f"checkpoint-{step}", daemon=True
        )
        self._thread.start()
        return True

    def wait(self) -> None:
        """Return when nothing is being saved; raises what the last save failed with."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Wait for what is being saved."""
        self.wait()

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()

    def _begin(self) -> None:
        """A run that restores nothing begins a new line."""
        run = self._run
        if run.worker_id == 0:
            check_fence(read_history(run.store), run.fence)
            announce(run.store, run.fence, NO_STEP)
            self._parent = NO_STEP
        else:
            self._parent = follow(run.store, run.fence, run.timeout_s)

    def _save(self, snapshot: Snapshot) -> None:
        run = self._run
        # Stands when the thread dies of a bug: a save that did not succeed is never silent.
        self._failure = TpuctlError(f"saving step {snapshot.step} broke off")
        try:
            write_part(run, snapshot)
            if run.worker_id == 0:
                commit(run, snapshot)
                prune(run.store, run.fence, self._keep)
        except (TpuctlError, OSError) as error:
            self._failure = error
        else:
            self._parent = snapshot.step
            self._failure = None
