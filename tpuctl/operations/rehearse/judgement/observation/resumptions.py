"""How a job went on after each disturbance: from which step, and what its saves were by then."""

from collections.abc import Sequence
from dataclasses import dataclass

from tpuctl.models.job import Attempt
from tpuctl.models.rehearsal.evidence import RunEvidence
from tpuctl.models.rehearsal.request_log import StorageRequest
from tpuctl.operations.rehearse.judgement.observation.logged_steps import StepLog
from tpuctl.operations.rehearse.judgement.observation.object_events import (
    ObjectAccess,
    object_deletions,
    object_reads,
    object_writes,
)
from tpuctl.operations.rehearse.judgement.observation.observed_saves import (
    ObservedSave,
    SaveLayout,
    object_counts,
    observed_saves,
    step_of,
)


@dataclass(frozen=True, slots=True)
class SaveState:
    """What there was of one save when an attempt began."""

    step: int | None
    is_whole: bool
    """Every object that a whole save has was there."""
    has_marker: bool
    missing: tuple[str, ...]
    """Kinds of objects that were not there, as templates of names; a number each: `shard-# (1)`."""
    deleted: tuple[str, ...]
    """Its objects that were deleted by then."""
    marker_writes: int
    """How often its marker had been written."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """The begin of a program after an attempt that had started before."""

    attempt: int
    before: int
    """The attempt before it."""
    frontier: int | None
    """The highest step that was told before; None: none was."""
    resumed_from: int | None
    """The step that it went on from, by its own word or its first step; None: it told none."""
    first_steps: tuple[tuple[int, int], ...]
    """(worker, first step that it told)."""
    saves: tuple[SaveState, ...]
    """The saves as they were when it began, oldest first."""
    reads: tuple[ObjectAccess, ...]
    """What it read below the prefix until it told its first step."""
    read_steps: tuple[int, ...]
    """The steps of the saves that it found something of, in the order of its reads."""

    @property
    def lost_steps(self) -> int | None:
        """The steps that are made again; None: not known."""
        if self.frontier is None or self.resumed_from is None:
            return None
        return max(self.frontier - self.resumed_from, 0)

    @property
    def has_lost_every_save(self) -> bool:
        """Whether no save was whole, and one had been until something of it was deleted."""
        return not any(save.is_whole for save in self.saves) and any(
            save.deleted and save.step != 0 for save in self.saves
        )

    @property
    def whole_steps(self) -> tuple[int, ...]:
        """The steps of the saves that were whole."""
        return tuple(save.step for save in self.saves if save.is_whole and save.step is not None)

    @property
    def forgotten_step(self) -> int | None:
        """The newest save that was whole though it began again; None: it did not, or lost nothing.

        Whoever goes on from a save of step 0 begins with step 0, or with step 1.
        """
        if self.resumed_from is None or self.resumed_from > 0:
            return None
        return max(filter(None, self.whole_steps), default=None)


def started_attempts(run: RunEvidence) -> tuple[Attempt, ...]:
    """The attempts of a run whose programs were started."""
    attempts = run.job.attempts if run.job else ()
    return tuple(attempt for attempt in attempts if attempt.started_s is not None)


def resumptions(run: RunEvidence, log: StepLog, layout: SaveLayout) -> tuple[Resumption, ...]:
    """Every begin of the program but the first, oldest first."""
    attempts = started_attempts(run)
    return tuple(
        _resumption(run, log, layout, before, attempt)
        for before, attempt in zip(attempts, attempts[1:], strict=False)
    )


def _resumption(
    run: RunEvidence, log: StepLog, layout: SaveLayout, before: Attempt, attempt: Attempt
) -> Resumption:
    began_s = before.ended_s or attempt.started_s or 0.0
    steps = log.of_attempt(attempt.number)
    first_steps = {step.worker_id: step.step for step in reversed(steps)}
    first_step_s = min((step.time_s for step in steps), default=float("inf"))
    reads = [
        read
        for read in object_reads(run.requests)
        if read.name.startswith(layout.prefix) and began_s <= read.began_s <= first_step_s
    ]
    read_steps = [step_of(read.name, layout) for read in reads if read.is_found]
    return Resumption(
        attempt.number,
        before.number,
        log.last_step(attempt.number),
        _resumed_from(log, attempt.number, first_steps),
        tuple(sorted(first_steps.items())),
        save_states(run.requests, layout, began_s),
        tuple(reads),
        tuple(step for step in read_steps if step is not None),
    )


def _resumed_from(log: StepLog, attempt: int, first_steps: dict[int, int]) -> int | None:
    told = [step for (number, _), step in log.resumed.items() if number == attempt]
    if told:
        return min(told)
    return min(first_steps.values()) - 1 if first_steps else None


def save_states(
    requests: Sequence[StorageRequest], layout: SaveLayout, at_s: float
) -> tuple[SaveState, ...]:
    """What there was of every save at a time."""
    earlier = [request for request in requests if request.began_s < at_s]
    newest_deletion = {
        deletion.name: deletion.number
        for deletion in object_deletions(earlier)
        if deletion.is_found
    }
    newest_write = {
        write.name: write.number
        for write in object_writes(earlier)
        if write.complete_s is not None and write.complete_s <= at_s
    }
    there = {name for name, number in newest_write.items() if number > newest_deletion.get(name, 0)}
    return tuple(_state(save, layout, there, at_s) for save in observed_saves(earlier, layout))


def _state(save: ObservedSave, layout: SaveLayout, there: set[str], at_s: float) -> SaveState:
    counts = object_counts((name for name in save.names if name in there), layout.prefix)
    missing = tuple(
        f"{kind} ({count - counts[kind]})"
        for kind, count in layout.counts.items()
        if counts[kind] < count
    )
    marks = [write for write in save.marker_writes if (write.complete_s or at_s + 1) <= at_s]
    return SaveState(
        save.step,
        not missing,
        bool(marks) and save.marker in there,
        missing,
        tuple(name for name in save.names if name not in there and _was_there(save, name)),
        len(marks),
    )


def _was_there(save: ObservedSave, name: str) -> bool:
    return any(write.name == name and write.complete_s is not None for write in save.writes)
