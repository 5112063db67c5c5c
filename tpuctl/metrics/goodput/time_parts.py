"""A job's time from its submission to the end of its last slice, divided into parts.

docs/goodput.md defines each part. What a record of an older tpuctl does not have counts as the part
before it: a first step that was not noted as compiling, say, as training.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from tpuctl.metrics.goodput.step_table import StepTable
from tpuctl.models.job import Attempt, AttemptOutcome, JobRecord


class TimePart(StrEnum):
    """What a job did in a span of its time."""

    WAITING = "waiting"
    PROVISIONING = "provisioning"
    PREPARING = "preparing"
    COMPILING = "compiling"
    TRAINING = "training"
    SAVING = "saving"
    LOST = "lost"
    RECOVERING = "recovering"
    IDLE = "idle"


class Span(NamedTuple):
    """From when to when a job did what; attempt 0 is before the first and after the last."""

    attempt: int
    part: TimePart
    begin_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end_s - self.begin_s


def time_parts(record: JobRecord, now_s: float, last_billed_s: float) -> list[Span]:
    """The spans of a job, one after the other, up to its end or to the end of its last slice."""
    job_end_s = now_s if record.ended_s is None else record.ended_s
    horizon_s = max(record.submitted_s, job_end_s)
    marks = sorted(_marks(record), key=lambda mark: mark[0])
    within = [(min(max(at, record.submitted_s), horizon_s), n, part) for at, n, part in marks]
    saves = {attempt.number: list(_save_times(attempt)) for attempt in record.attempts}
    spans = [
        part
        for span in _between(record.submitted_s, within, horizon_s)
        for part in _with_saves(span, saves.get(span.attempt, ()))
    ]
    if record.ended_s is not None and last_billed_s > horizon_s:
        spans.append(Span(0, TimePart.IDLE, horizon_s, last_billed_s))
    return spans


Mark = tuple[float, int, TimePart]
"""From this moment on the attempt does this."""


def _between(begin_s: float, marks: Sequence[Mark], end_s: float) -> Iterator[Span]:
    """The spans between the marks, the first of which is preceded by waiting."""
    number, part = 0, TimePart.WAITING
    for at, next_number, next_part in marks:
        if at > begin_s:
            yield Span(number, part, begin_s, at)
        begin_s, number, part = max(at, begin_s), next_number, next_part
    if end_s > begin_s:
        yield Span(number, part, begin_s, end_s)


def _save_times(attempt: Attempt) -> Iterator[tuple[float, float]]:
    """From when to when the program of an attempt waited for a checkpoint, one after the other.

    Waits of which only the last is known are taken to have come one right after the other.
    """
    if attempt.started_s is None:
        return
    before_s = attempt.started_s
    waited_s = 0.0
    for wait in sorted(attempt.save_waits, key=lambda each: each.after_s):
        end_s = attempt.started_s + wait.after_s
        begin_s = max(before_s, end_s - (wait.waited_s - waited_s))
        if begin_s < end_s:
            yield begin_s, end_s
        before_s, waited_s = end_s, wait.waited_s


def _with_saves(span: Span, saves: Sequence[tuple[float, float]]) -> Iterator[Span]:
    """The span; where it is training, what the program waited for checkpoints apart."""
    at = span.begin_s
    for begin_s, end_s in saves if span.part == TimePart.TRAINING else ():
        first_s, last_s = max(at, begin_s), min(span.end_s, end_s)
        if first_s < last_s:
            if at < first_s:
                yield span._replace(begin_s=at, end_s=first_s)
            yield Span(span.attempt, TimePart.SAVING, first_s, last_s)
            at = last_s
    if at < span.end_s:
        yield span._replace(begin_s=at)


def _marks(record: JobRecord) -> Iterator[Mark]:
    """When each part of each attempt began. Of equal moments the later mark counts."""
    ended_s, hang_s = record.submitted_s, record.spec.timeouts.hang_s
    for attempt, after in zip(record.attempts, (*record.attempts[1:], None), strict=False):
        stopped_s = _stopped_s(attempt)
        times = (
            (attempt.requested_s, TimePart.WAITING),
            (attempt.provisioning_s, TimePart.PROVISIONING),
            (attempt.ready_s, TimePart.PREPARING),
            (attempt.started_s, _first_part(attempt, record)),
            (_trains_since_s(attempt), TimePart.TRAINING),
            (_lost_since_s(attempt, after, hang_s), TimePart.LOST),
            (stopped_s, TimePart.IDLE if after is None else TimePart.RECOVERING),
        )
        for at, part in times:
            if at is not None and (stopped_s is None or at <= stopped_s):
                # The slice of an earlier attempt was READY long before.
                yield max(at, ended_s), attempt.number, part
        ended_s = max(ended_s, attempt.ended_s or stopped_s or ended_s)


def _stopped_s(attempt: Attempt) -> float | None:
    """When its program ended or was stopped; where that is not known, when the attempt ended."""
    ran_until_s = attempt.started_s and attempt.ran_s and attempt.started_s + attempt.ran_s
    stopped_s = attempt.stopping_s or attempt.ended_s
    return min((each for each in (ran_until_s, stopped_s) if each), default=None)


def _trains_since_s(attempt: Attempt) -> float | None:
    """When its first step began; where that is not known, when it was reported."""
    table = StepTable.of(attempt)
    return attempt.first_step_s if table is None else table.begin_s(attempt.resume_step)


def _first_part(attempt: Attempt, record: JobRecord) -> TimePart:
    """What a program does before its first step: it compiles, if it ever reports a step."""
    tells_steps = attempt.first_step_s is not None
    is_open = attempt.ended_s is None and any(each.first_step_s for each in record.attempts)
    return TimePart.COMPILING if tells_steps or is_open else TimePart.TRAINING


def _lost_since_s(attempt: Attempt, after: Attempt | None, hang_s: float | None) -> float | None:
    """From when on what an attempt did was not kept: it hung, or the next one did it again.

    None where nothing is known to be lost. Which steps were made twice is known, and when each was
    made the table of steps says; without one they are taken to have been equally long.
    """
    began_s = _trains_since_s(attempt) or attempt.started_s
    stopped_s = _stopped_s(attempt)
    if began_s is None or stopped_s is None:
        return None
    worked_until_s = stopped_s
    if attempt.outcome == AttemptOutcome.HUNG and hang_s is not None:
        worked_until_s = max(began_s, stopped_s - hang_s)
    hung_s = worked_until_s if worked_until_s < stopped_s else None
    if after is None or after.started_s is None:
        return hung_s
    if not after.resume_step or after.resume_step <= attempt.resume_step:
        return began_s
    made = attempt.last_step - attempt.resume_step
    kept = after.resume_step - attempt.resume_step
    if kept >= made:
        return hung_s  # it went on from the last step
    table = StepTable.of(attempt)
    if table is not None:
        return min(table.told_s(after.resume_step), worked_until_s)
    return began_s + (worked_until_s - began_s) * kept / made
