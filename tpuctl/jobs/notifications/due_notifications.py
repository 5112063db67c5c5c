"""Which messages a change of a job's record makes due: pure, and each at most once.

A message is written with the change that it is about, in one write of the record under the fence of
the lease. So no change is without its message, whoever dies when, and no message is due twice: what
is due follows from the record before and the record after, and the record before was written.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tpuctl.jobs.policy import budget
from tpuctl.jobs.record.status_text import format_duration, format_moment
from tpuctl.models.job import Attempt, AttemptOutcome, AttemptState, JobRecord, JobState
from tpuctl.models.notify.notification import Notification, Sending
from tpuctl.models.notify.notify_spec import NotifyEvent

UNSUPERVISED_S = 300.0
"""A job that nobody looked after for less is not worth a message: a supervisor begins again, or
another one takes over within 30 s."""
MOST_KEPT = 100
"""Of the messages that are done with; those on their way are always kept."""
END_EVENTS = {
    JobState.FAILED: NotifyEvent.FAILED,
    JobState.SUCCEEDED: NotifyEvent.FINISHED,
    JobState.CANCELLED: NotifyEvent.FINISHED,
}


@dataclass(frozen=True, slots=True)
class NotificationCause:
    """Something that happened to a job, before it is known who hears of it."""

    event: NotifyEvent
    attempt: int
    text: str = ""


def with_due_notifications(before: JobRecord, after: JobRecord, now_s: float) -> JobRecord:
    """The record after a change, with the messages that the change makes due."""
    return with_notifications(after, due_notifications(before, after, now_s), now_s)


def due_notifications(
    before: JobRecord, after: JobRecord, now_s: float
) -> Iterator[NotificationCause]:
    """What the step from one record of a job to the next is to be told of, in order."""
    for attempt in after.attempts[max(0, len(before.attempts) - 1) :]:
        yield from _of_attempt(_same_attempt(before, attempt), attempt, after)
    number = len(after.attempts)
    if not before.is_ended and (why := _budget_text(after, now_s)):
        yield NotificationCause(NotifyEvent.OVER_BUDGET, number, why)
    if after.is_ended and not before.is_ended:
        yield NotificationCause(END_EVENTS[after.state], number, after.why)


def unsupervised_notification(
    record: JobRecord, since_s: float, now_s: float
) -> Iterator[NotificationCause]:
    """What is to be told when a job is taken that nobody looked after since `since_s`."""
    if record.is_ended or now_s - since_s < UNSUPERVISED_S:
        return
    text = f"from {format_moment(since_s, now_s)} on, for {format_duration(now_s - since_s)}"
    yield NotificationCause(NotifyEvent.UNSUPERVISED, len(record.attempts), text)


def idle_notification(record: JobRecord, evidence: str) -> Iterator[NotificationCause]:
    """What is to be told when the program of the newest attempt does not use its chips: once."""
    number = len(record.attempts)
    told = (each for each in record.notifications if each.event == NotifyEvent.IDLE)
    if evidence and all(each.attempt != number for each in told):
        yield NotificationCause(NotifyEvent.IDLE, number, evidence)


def with_notifications(
    record: JobRecord, causes: Iterator[NotificationCause], now_s: float
) -> JobRecord:
    """The record with a message for each cause of which some target hears."""
    for cause in causes:
        targets = [
            number
            for number, target in enumerate(record.spec.notify or ())
            if cause.event in target.events
        ]
        if targets:
            new = Notification(
                notification_id=_new_id(record, cause),
                event=cause.event,
                time_s=now_s,
                attempt=cause.attempt,
                fence=record.fence,
                text=cause.text,
                sendings=tuple(map(Sending, targets)),
            )
            record = replace(record, notifications=_pruned((*record.notifications, new)))
    return record


def _same_attempt(before: JobRecord, attempt: Attempt) -> Attempt | None:
    known = before.attempts[attempt.number - 1 : attempt.number]
    return known[0] if known else None


def _of_attempt(
    before: Attempt | None, attempt: Attempt, after: JobRecord
) -> Iterator[NotificationCause]:
    if attempt.started_s is not None and (before is None or before.started_s is None):
        others = (each for each in after.tries if each.number < attempt.number)
        is_first = all(each.started_s is None for each in others)
        event = NotifyEvent.STARTED if is_first else NotifyEvent.RESUMED
        yield NotificationCause(event, attempt.number)
    was_ended = before is not None and before.state == AttemptState.ENDED
    has_ended = attempt.state == AttemptState.ENDED and not was_ended
    if has_ended and attempt.outcome == AttemptOutcome.PREEMPTED:
        yield NotificationCause(NotifyEvent.PREEMPTED, attempt.number, attempt.reason)


def _budget_text(record: JobRecord, now_s: float) -> str | None:
    """Why the job is stopped by its budget; None where it is not, or where that was told."""
    is_done = record.state == JobState.SUCCEEDED or record.cancel_requested_s is not None
    if is_done or _is_told(record, NotifyEvent.OVER_BUDGET):
        return None
    return budget.stop_reason(record, now_s)


def _is_told(record: JobRecord, event: NotifyEvent) -> bool:
    """Whether there is a message of it since the job was submitted or tried again by hand."""
    return any(
        each.event == event and each.attempt > record.retried_after for each in record.notifications
    )


def _new_id(record: JobRecord, cause: NotificationCause) -> str:
    """An id that no other message of the job has: a job that is tried again may fail again."""
    plain = f"{record.job_id}-{cause.event}-{cause.attempt}"
    taken = {each.notification_id for each in record.notifications}
    others = (f"{plain}.{number}" for number in range(2, len(taken) + 3))
    return next(each for each in (plain, *others) if each not in taken)


def _pruned(found: tuple[Notification, ...]) -> tuple[Notification, ...]:
    """Without the oldest of those that are done with, where there are many."""
    done = [each for each in found if not each.is_open]
    dropped = {each.notification_id for each in done[: max(0, len(done) - MOST_KEPT)]}
    return tuple(each for each in found if each.notification_id not in dropped)
