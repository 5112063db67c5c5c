"""A message about a job in words, from its record alone: the same for every target."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from tpuctl.jobs.policy import attempt_end
from tpuctl.models.job import Attempt, JobRecord, JobState, WorkerReport
from tpuctl.models.notify.notification import Notification
from tpuctl.models.notify.notify_spec import NotifyEvent

MOST_LINES, LINE_CHARS, TITLE_CHARS = 20, 200, 200
CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
URGENT = frozenset({NotifyEvent.FAILED, NotifyEvent.OVER_BUDGET})


@dataclass(frozen=True, slots=True)
class NotificationMessage:
    """What a target is told: one line, some more, and the last lines of a worker."""

    notification_id: str
    event: NotifyEvent
    time_s: float
    title: str
    details: tuple[str, ...]
    last_lines: tuple[str, ...]
    command: str
    """What to type to see more."""
    is_repeat: bool
    """It may have arrived before: the supervisor that sent it ended before it could note that."""
    job_id: str
    name: str
    state: str
    attempt: int
    accelerator_type: str
    zone: str
    owner: str
    first_worker: int | None
    """The worker that failed first."""

    @property
    def time(self) -> str:
        """When it happened, as ISO 8601 has it."""
        return f"{datetime.fromtimestamp(self.time_s, UTC):%Y-%m-%dT%H:%M:%SZ}"

    @property
    def plain_text(self) -> str:
        """The whole of it but the title, as lines of text."""
        lines = [*self.details, *(f"  {line}" for line in self.last_lines), f"run: {self.command}"]
        return "\n".join(lines)


def message_of(record: JobRecord, notification: Notification, fence: int) -> NotificationMessage:
    """The message of a job; `fence` is that of the supervisor that sends it."""
    attempt = _attempt(record, notification.attempt)
    worker = _first_worker(attempt) if notification.event == NotifyEvent.FAILED else None
    lines = worker.last_lines[-MOST_LINES:] if worker else ()
    return NotificationMessage(
        notification_id=notification.notification_id,
        event=notification.event,
        time_s=notification.time_s,
        title=one_line(f"{record.job_id} {_title(record, notification, attempt)}"),
        details=tuple(map(one_line, _details(record, notification, attempt, worker))),
        last_lines=tuple(CONTROL.sub("", line)[:LINE_CHARS] for line in lines),
        command=f"tpuctl job describe {record.job_id}",
        is_repeat=fence > notification.fence,
        job_id=record.job_id,
        name=record.spec.name,
        state=_state(record, notification),
        attempt=notification.attempt,
        accelerator_type=(attempt and attempt.accelerator_type) or record.accelerator_type,
        zone=attempt.zone if attempt else record.zone,
        owner=record.owner,
        first_worker=worker.worker_id if worker else None,
    )


def one_line(text: str) -> str:
    """A text on one line, without control characters, not all of it when it is long."""
    flat = CONTROL.sub("", " ".join(text.split()))
    return flat if len(flat) <= TITLE_CHARS else f"{flat[: TITLE_CHARS - 1]}…"


def _attempt(record: JobRecord, number: int) -> Attempt | None:
    known = record.attempts[number - 1 : number] if number else ()
    return known[0] if known else None


def _first_worker(attempt: Attempt | None) -> WorkerReport | None:
    if attempt is None:
        return None
    return next((each for each in attempt.workers if each.worker_id == attempt.first_worker), None)


def _state(record: JobRecord, notification: Notification) -> str:
    """The state that the job had: it may have gone on since."""
    states = {
        NotifyEvent.STARTED: JobState.RUNNING,
        NotifyEvent.RESUMED: JobState.RUNNING,
        NotifyEvent.IDLE: JobState.RUNNING,
        NotifyEvent.FAILED: JobState.FAILED,
        NotifyEvent.PREEMPTED: JobState.RECOVERING,
    }
    return states.get(notification.event, record.state)


def _title(record: JobRecord, notification: Notification, attempt: Attempt | None) -> str:
    kind = (attempt and attempt.accelerator_type) or record.accelerator_type
    where = f"{kind} in {attempt.zone if attempt else record.zone}"
    number, text = notification.attempt, notification.text
    is_cancelled = record.state == JobState.CANCELLED
    return {
        NotifyEvent.STARTED: f"started on {where}",
        NotifyEvent.PREEMPTED: f"was preempted: {text}",
        NotifyEvent.RESUMED: f"runs again: attempt {number} on {where}",
        NotifyEvent.FAILED: f"failed: {text}",
        NotifyEvent.FINISHED: "was cancelled" if is_cancelled else f"succeeded: {text}",
        NotifyEvent.OVER_BUDGET: f"is stopped: {text}",
        NotifyEvent.UNSUPERVISED: f"had no supervisor {text}",
        NotifyEvent.IDLE: f"does not use its chips: {text}",
    }[notification.event]


def _details(
    record: JobRecord,
    notification: Notification,
    attempt: Attempt | None,
    worker: WorkerReport | None,
) -> Iterator[str]:
    if notification.event == NotifyEvent.RESUMED and (before := _before(record, attempt)):
        yield f"attempt {before.number} {before.outcome}: {before.reason}"
    if notification.event == NotifyEvent.UNSUPERVISED:
        yield f"it is {record.state}, and looked after again"
    if worker is not None:
        yield f"worker {worker.worker_id} was the first: {attempt_end.worker_text(worker)}"
    if attempt is not None:
        step = max(attempt.resume_step, attempt.last_step)
        reached = f", step {step}" if step else ""
        kind = attempt.accelerator_type or record.accelerator_type
        yield f"attempt {attempt.number} on {kind} in {attempt.zone}{reached}"


def _before(record: JobRecord, attempt: Attempt | None) -> Attempt | None:
    number = attempt.number if attempt else 0
    earlier = [each for each in record.tries if each.number < number]
    return earlier[-1] if earlier else None
