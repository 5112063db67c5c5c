"""Agreement on the step that a run goes on from: the newest that every worker can read."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tpuctl.checkpoint.arrays.array_tree import Tree
from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.format.manifest import decode, decode_commit
from tpuctl.checkpoint.format.record_cache import RecordCache, read_record
from tpuctl.checkpoint.parallel import parallel_map
from tpuctl.checkpoint.read.lineage import NO_ORIGIN, NO_STEP, Origin
from tpuctl.checkpoint.read.step_history import (
    CheckpointStep,
    inspect_step,
    mark_bad,
    note_verified,
    read_history,
)
from tpuctl.checkpoint.read.step_reader import (
    LISTING_TRIES,
    Restored,
    StepDeletedError,
    StepReading,
    candidates,
    deleted_meanwhile_error,
    no_good_step_error,
    read_step,
    restored,
)
from tpuctl.checkpoint.resume.coordination import (
    check_fence,
    fence_used_error,
    list_run_records,
    put_once,
    read_rollback,
    resume_timeout_error,
    wait_for,
    write_rollback,
)
from tpuctl.checkpoint.worker_run import WorkerRun
from tpuctl.errors import (
    DeadlineError,
    IntegrityError,
    NotFoundError,
    PartialFailureError,
    TpuctlError,
)
from tpuctl.store import Entry

GOOD, DAMAGED, GONE, FAILED = "", "integrity", "gone", "failed"
"""What a worker answers to a proposal."""
_READERS = 16
"""So many small records are read at once."""


class ResumeResult(NamedTuple):
    """What a run goes on with: the restored tree, None without one, and the origin."""

    restored: Restored | None
    origin: Origin


def resume(
    run: WorkerRun, step: int | None = None, like: Tree = None, records: RecordCache | None = None
) -> ResumeResult:
    """Restore what every worker of this run can: the newest good step, or that one.

    Worker 0 has announced the run before, and leaves in `records` which COMMITs it has read. What
    is found to be damaged is marked. Raises NoCheckpointError when there are steps and none is
    good, PreconditionError when the run is superseded, ConflictError when its fence was used.
    """
    if run.worker_id == 0:
        return _Leader(run, like, RecordCache() if records is None else records).resume(step)
    return _Follower(run, like).resume()


class _Leader:
    """Worker 0: proposes, collects what the others found, decides."""

    def __init__(self, run: WorkerRun, like: Tree, records: RecordCache) -> None:
        self._run = run
        self._like = like
        self._records = records
        self._numbers = itertools.count()

    def resume(self, step: int | None) -> ResumeResult:
        for _ in range(LISTING_TRIES):
            try:
                found, origin = self._first_good(step)
            except StepDeletedError:
                continue
            write_rollback(self._run, origin)
            return ResumeResult(found, origin)
        raise deleted_meanwhile_error(self._run.store)

    def _first_good(self, step: int | None) -> ResumeResult:
        store = self._run.store
        history = read_history(store)
        for listed in history.steps:  # the saves of this run need not read these again
            if listed.committed is None or listed.commit is None:
                continue
            if not listed.is_copied:  # a copy has other generations than its COMMIT says
                self._records.add(listed.committed, listed.commit)
        check_fence(history, self._run.fence)
        skipped: list[tuple[int, str]] = []
        for candidate in candidates(store, history, step):
            try:
                reading = self._read_on_all_workers(candidate)
            except IntegrityError as error:
                skipped.append((candidate.step, str(error)))
                if not candidate.lacks_files:  # it may be whole when a copy has come to its end
                    mark_bad(self._run.store, candidate, str(error), self._run.fence)
                continue
            fence = -1 if candidate.commit is None else candidate.commit.fence
            found = restored(candidate, reading, skipped)
            _log_restored(found)
            return ResumeResult(found, Origin(candidate.step, fence))
        if not skipped:
            return ResumeResult(None, NO_ORIGIN)
        raise no_good_step_error(store, skipped)

    def _read_on_all_workers(self, step: CheckpointStep) -> StepReading:
        """The reading, when all workers can read their share; IntegrityError, GoneError."""
        if self._run.worker_count == 1 or step.commit is None or step.defect:
            return self._read(step)
        number = next(self._numbers)
        self._propose(number, step)
        reading = self._read(step)
        self._await_answers(number, step)
        return reading

    def _read(self, step: CheckpointStep) -> StepReading:
        """Read the step; when that took every byte of a copy, it is remembered."""
        reading = read_step(self._run.store, step, self._like)
        if step.is_unverified and reading.is_all_read:
            with contextlib.suppress(TpuctlError):  # it is read again next time
                note_verified(self._run.store, step)
        return reading

    def _propose(self, number: int, step: CheckpointStep) -> None:
        fence = self._run.fence
        generation = 0 if step.committed is None else step.committed.generation
        record = {"fence": fence, "step": step.step, "generation": generation}
        if step.is_copied:
            record["copied"] = 1
        put_once(self._run.store, layout.try_key(fence, number), record)

    def _await_answers(self, number: int, step: CheckpointStep) -> None:
        run = self._run
        silent = {layout.answer_key(run.fence, number, i): i for i in range(1, run.worker_count)}

        def probe() -> bool | None:
            records = list_run_records(run)
            entries = [records[key] for key in silent if key in records]
            answers = parallel_map(self._answer, entries, threads=_READERS)
            for entry, answer in zip(entries, answers, strict=True):
                _check_answer(silent.pop(entry.key), step, answer)
            return None if silent else True

        if wait_for(probe, run.timeout_s) is None:
            workers = ", ".join(f"worker {worker_id}" for worker_id in silent.values())
            raise DeadlineError(
                f"{workers} did not report within {run.timeout_s:g} s "
                f"whether step {step.step} is good"
            )

    def _answer(self, entry: Entry) -> Mapping[str, Any]:
        try:
            return read_record(self._run.store, entry, decode)
        except (IntegrityError, NotFoundError) as error:
            # It is the answer that is not right, not the step.
            raise PartialFailureError(f"{entry.key}: {error}") from error


def _log_restored(found: Restored) -> None:
    """Say on stderr, unless the program has its logs go elsewhere, what is not as usual."""
    step, skipped, left_out = found.step, found.skipped, found.left_out
    if not (skipped or found.is_copy or left_out):
        return
    import logging  # it takes a tenth of the time that importing this package may take

    log = logging.getLogger("tpuctl.checkpoint")
    for number, reason in skipped:
        log.warning(
            "checkpoint of step %d is damaged: %s; going on from step %d", number, reason, step
        )
    if left_out:
        more = f" and {len(left_out) - 1} more" if len(left_out) > 1 else ""
        log.warning(
            "checkpoint of step %d has %s%s, which `like` does not name: not restored",
            step,
            left_out[0],
            more,
        )
    if found.is_copy:
        log.warning("checkpoint of step %d is a copy: what was read of it is what was saved", step)


def _check_answer(worker_id: int, step: CheckpointStep, answer: Mapping[str, Any]) -> None:
    kind, reason = answer.get("kind"), f"worker {worker_id}: {answer.get('reason')}"
    if kind == DAMAGED:
        raise IntegrityError(reason)
    if kind == GONE:
        raise StepDeletedError
    if kind != GOOD:
        raise PartialFailureError(f"step {step.step} is not restored: {reason}")


class _Follower:
    """The other workers: read what worker 0 proposes, answer, and wait for what it decides."""

    def __init__(self, run: WorkerRun, like: Tree) -> None:
        self._run = run
        self._like = like
        self._skipped: list[tuple[int, str]] = []

    def resume(self) -> ResumeResult:
        read = ResumeResult(None, NO_ORIGIN)
        for number in itertools.count():
            records = wait_for(self._next(number), self._run.timeout_s)
            if records is None:
                raise resume_timeout_error(self._run)
            origin = read_rollback(self._run, records)
            if origin is not None:
                return self._result_of(origin, read)
            if read.restored is not None:
                self._skipped.append((read.origin.step, "another worker could not read it"))
            read = self._answer(number, records)
        raise AssertionError("a count is cut off")

    def _next(self, number: int) -> Callable[[], dict[str, Entry] | None]:
        keys = {layout.try_key(self._run.fence, number), layout.rollback_key(self._run.fence)}

        def probe() -> dict[str, Entry] | None:
            records = list_run_records(self._run)
            return records if keys & records.keys() else None

        return probe

    def _result_of(self, origin: Origin, read: ResumeResult) -> ResumeResult:
        if origin == NO_ORIGIN:
            return ResumeResult(None, NO_ORIGIN)
        if read.restored is None or origin != read.origin:
            # What another run of this fence agreed on: this one has a worker 0 that will fail.
            raise fence_used_error(self._run.store, self._run.fence)
        return read

    def _answer(self, number: int, records: dict[str, Entry]) -> ResumeResult:
        entry = records[layout.try_key(self._run.fence, number)]
        proposed = read_record(self._run.store, entry, decode)
        step, generation = proposed.get("step", NO_STEP), proposed.get("generation", 0)
        try:
            read = self._read(self._proposed_step(step, generation, is_copy="copied" in proposed))
        except IntegrityError as error:
            self._say(number, DAMAGED, str(error))
            self._skipped.append((step, str(error)))
        except StepDeletedError:
            self._say(number, GONE, "it was deleted")
        except Exception as error:
            self._say(number, FAILED, str(error) or type(error).__name__)
            raise
        else:
            self._say(number, GOOD, "")
            return read
        return ResumeResult(None, NO_ORIGIN)

    def _proposed_step(self, number: int, generation: int, *, is_copy: bool) -> CheckpointStep:
        """The step with that generation of COMMIT; of a copy the listing has the generations."""
        store = self._run.store
        if is_copy:
            step = inspect_step(store, number)
            if step.committed is None or step.committed.generation != generation:
                raise StepDeletedError
            return step
        entry = store.head(layout.commit_key(number))
        if entry is None or entry.generation != generation:
            raise StepDeletedError
        try:
            commit = read_record(store, entry, decode_commit)
        except NotFoundError as error:
            raise StepDeletedError from error
        return CheckpointStep(number, (), entry, commit)

    def _read(self, step: CheckpointStep) -> ResumeResult:
        reading = read_step(self._run.store, step, self._like)
        fence = -1 if step.commit is None else step.commit.fence
        return ResumeResult(restored(step, reading, self._skipped), Origin(step.step, fence))

    def _say(self, number: int, kind: str, reason: str) -> None:
        run = self._run
        record = {"fence": run.fence, "worker": run.worker_id, "kind": kind, "reason": reason}
        put_once(run.store, layout.answer_key(run.fence, number, run.worker_id), record)
