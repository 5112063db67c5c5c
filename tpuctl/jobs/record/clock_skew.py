"""Times of a record that this machine's clock has not reached: nobody waits for it to catch up."""

from dataclasses import replace

from tpuctl.models.job import Attempt, JobRecord

ATTEMPT_TIMES = (
    *("requested_s", "accepted_s", "ready_s", "started_s", "stopping_s"),
    *("ended_s", "deleted_s", "awaited_s"),
)
RECORD_TIMES = ("wanted_since_s", "ended_s")


def clamp_to_now(record: JobRecord, now_s: float) -> JobRecord:
    """The record with every time that is still to come moved to now.

    The clock was set back, or that of the machine that wrote it was ahead of this one's.
    """
    changes = _future_times(record, RECORD_TIMES, now_s)
    if any(_future_times(each, ATTEMPT_TIMES, now_s) for each in record.attempts):
        changes["attempts"] = tuple(_clamp_attempt(each, now_s) for each in record.attempts)
    return replace(record, **changes) if changes else record  # type: ignore[arg-type]


def _clamp_attempt(attempt: Attempt, now_s: float) -> Attempt:
    return replace(attempt, **_future_times(attempt, ATTEMPT_TIMES, now_s))  # type: ignore[arg-type]


def _future_times(found: object, names: tuple[str, ...], now_s: float) -> dict[str, object]:
    times = {name: getattr(found, name) for name in names}
    return {name: now_s for name, time_s in times.items() if time_s is not None and time_s > now_s}
