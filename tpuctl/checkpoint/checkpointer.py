"""What a training program holds: save in the background, restore the newest good step."""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tpuctl.checkpoint.checkpoint_directory import Directory, open_directory
from tpuctl.checkpoint.format.layout import LAST_STEP
from tpuctl.checkpoint.preemption_save import EXIT_CODE, PreemptionHandler
from tpuctl.checkpoint.waited_time import waiting
from tpuctl.checkpoint.worker_run import KEEP, NOTICE, environment_number, resolve_run, whole_number
from tpuctl.errors import UsageError

# The rest is imported when it is needed: a worker compiles all that a program imports.
if TYPE_CHECKING:
    from tpuctl.checkpoint.arrays.array_tree import Tree
    from tpuctl.checkpoint.format.record_cache import RecordCache
    from tpuctl.checkpoint.read.lineage import Origin
    from tpuctl.checkpoint.read.step_reader import Restored
    from tpuctl.checkpoint.write.snapshot import CopyBuffers
    from tpuctl.checkpoint.write.step_writer import StepWriter


class Checkpointer:
    """Checkpoints of one run, as one of its workers sees them; every worker has one.

        with Checkpointer("gs://bucket/run", every=100) as checkpointer:
            restored = checkpointer.restore(like=state)
            ...
            checkpointer.save(step, state)

    Every worker calls `save` at every step, from one thread: `every` decides which are saved.
    In `with`, a program that gets SIGTERM saves once more.
    """

    def __init__(  # noqa: PLR0913 (each one a fact of the run)
        self,
        directory: Directory,
        worker_id: int | None = None,
        worker_count: int | None = None,
        *,
        keep: int | None = None,
        every: int = 1,
        fence: int | None = None,
        timeout_s: float = 600.0,
        program_version: str | None = None,
        digest: str | None = None,
        client: object | None = None,
    ) -> None:
        """Read and write nothing yet; `timeout_s` bounds each wait for another worker.

        What is not said comes from the environment of a job: TPUCTL_WORKER_ID, TPUCTL_WORKER_COUNT,
        TPUCTL_FENCE, TPUCTL_CHECKPOINT_KEEP, TPUCTL_CHECKPOINT_DIGEST, TPUCTL_PROGRAM_VERSION.
        `fence` numbers the runs that use the directory, a later one higher; one worker on its own
        needs none. With the digest `sha256` COMMIT has that of every block, for who fears forgery.
        Raises UsageError when the numbers make no sense.
        """
        store = open_directory(directory, client)
        self._run = resolve_run(
            store, worker_id, worker_count, fence, timeout_s, program_version, digest
        )
        self._keep = environment_number(KEEP, 3) if keep is None else whole_number("keep", keep)
        self._every = whole_number("every", every)
        if self._every <= 0:
            raise UsageError(f"every must be at least 1, not {every}")
        self._has_begun = False
        self._records: RecordCache | None = None
        self._memory: CopyBuffers | None = None
        self._has_memory = False
        self._writer: StepWriter | None = None
        self._stopping = PreemptionHandler(environment_number(NOTICE, 30))

    def restore(self, step: int | None = None, like: Tree = None) -> Restored | None:
        """Restore the newest good step, or `step`; None when the directory has no step yet.

        All workers agree on it. Arrays come back as those of `like`, on its devices and shards;
        without it as whole numpy arrays. What no dict of `like` names is not read. Raises
        NoCheckpointError when steps are there and none is good, PreconditionError when a later run
        has begun, DeadlineError when a worker is missing.
        """
        if self._writer is not None:
            raise UsageError("restore once, before the first save")
        from tpuctl.checkpoint.resume.resume_protocol import resume

        self._begin()
        resumed = resume(self._run, step, like, self._known())
        self._writer = self._new_writer(resumed.origin)
        return resumed.restored

    def latest(self) -> int | None:
        """The number of the newest step that is complete as far as the listing shows, or None."""
        from tpuctl.checkpoint.read.step_history import read_history

        newest = read_history(self._run.store, self._known()).latest()
        return None if newest is None else newest.step

    def save(self, step: int, tree: Tree, *, force: bool = False, wait: bool = False) -> bool:
        """Save a step that is due, or forced, unless it is there; False when it is neither.

        Returns when the own parts are copied; with `wait`, when the step is there, and nothing is
        copied. Raises what the save before failed with. A program that got SIGTERM saves once
        more, and ends: SystemExit(143).
        """
        with waiting():
            return self._save(step, tree, force=force, wait=wait)

    def _save(self, step: int, tree: Tree, *, force: bool, wait: bool) -> bool:
        called_s = time.monotonic()
        step = _step_number(step)
        self._begin()
        if self._stopping.is_last(self._run, step):
            return self._save_last(step, tree, called_s)
        if self._writer is not None:
            self._writer.raise_failure()
        if not (force or step % self._every == 0):
            if not wait:
                self._warm(tree)
            return False
        self._wait()
        if self._stopping.is_too_late(step):
            return False
        self._write(step, tree, called_s, wait=wait)
        return True

    def _save_last(self, step: int, tree: Tree, called_s: float) -> bool:
        """Save once more, and end; the error of an earlier save comes after that."""
        failure: Exception | None = None
        try:
            self._wait()
        except Exception as error:  # noqa: BLE001 (raised below)
            failure = error
        is_saved = not self._stopping.is_too_late(step)
        if is_saved:
            self._write(step, tree, called_s, wait=True)
        if failure is not None:
            raise failure
        if not is_saved:
            return False
        if self._run.worker_id == 0:
            sys.stderr.write(f"tpuctl: told to end: step {step} is saved\n")
        raise SystemExit(EXIT_CODE)

    def _write(self, step: int, tree: Tree, called_s: float, *, wait: bool) -> None:
        self._has_memory = True
        if self._writer is None:  # the run restores nothing
            from tpuctl.checkpoint.resume.coordination import begin_lineage

            self._writer = self._new_writer(begin_lineage(self._run))
        self._writer.save(step, tree, called_s, wait=wait)

    def wait(self) -> None:
        """Return when this worker saves nothing; raises what its last save failed with.

        The step is there when worker 0, too, has nothing to save.
        """
        with waiting():
            self._wait()

    def _wait(self) -> None:
        if self._writer is not None:
            self._writer.wait()

    def close(self) -> None:
        """Wait until nothing is being saved, and at most 30 s for deletions."""
        if self._writer is not None:
            with waiting():
                self._writer.close()

    def __enter__(self) -> Checkpointer:
        self._stopping.listen()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        try:
            if error is None or (isinstance(error, SystemExit) and not error.code):
                self.close()
            # Else the program's own error goes first. Its step is still saved before Python ends.
        finally:
            self._stopping.ignore()

    def _begin(self) -> None:
        """Announce the run, before anything of the directory is read."""
        if self._has_begun:
            return
        from tpuctl.checkpoint.resume.coordination import announce_run, take_fence

        if self._run.fence < 0:
            self._run = replace(self._run, fence=take_fence(self._run.store))
        elif self._run.worker_id == 0:
            announce_run(self._run.store, self._run.fence)
        self._has_begun = True

    def _new_writer(self, origin: Origin) -> StepWriter:
        from tpuctl.checkpoint.write.step_writer import StepWriter

        return StepWriter(self._run, origin, self._keep, self._known(), self._copies())

    def _warm(self, tree: Tree) -> None:
        """Take memory for the copies of the first save, once, while the program computes."""
        if self._has_memory:
            return
        from tpuctl.checkpoint.arrays.array_tree import flatten
        from tpuctl.checkpoint.write.snapshot import share_bytes

        self._has_memory = True
        with contextlib.suppress(UsageError):  # the save that is due says it
            self._copies().warm(share_bytes(flatten(tree)[1], self._run.worker_count))

    def _copies(self) -> CopyBuffers:
        """The memory for copies, which all saves share."""
        from tpuctl.checkpoint.write.snapshot import CopyBuffers

        if self._memory is None:
            self._memory = CopyBuffers()
        return self._memory

    def _known(self) -> RecordCache:
        """The small records that were read before."""
        from tpuctl.checkpoint.format.record_cache import RecordCache

        if self._records is None:
            self._records = RecordCache()
        return self._records


def _step_number(step: int) -> int:
    """A step that can be named; UsageError otherwise."""
    number = whole_number("step", step)
    if not 0 <= number <= LAST_STEP:
        raise UsageError(f"{step} cannot be a step")
    return number
