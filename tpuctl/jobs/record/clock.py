"""Times of a record that this machine's clock has not reached: nobody waits for it to catch up."""

from dataclasses import replace

from tpuctl.models.job import Attempt, JobRecord

OF_ATTEMPT = (
    *("requested_s", "accepted_s", "ready_s", "started_s", "stopping_s"),
    *("ended_s", "deleted_s", "awaited_s"),
)
OF_RECORD = ("wanted_since_s", "ended_s")


def not_ahead(record: JobRecord, now_s: float) -> JobRecord:
    """The record with every time that is still to come moved to now.

    The clock was set back, or that of the machine that wrote it was ahead of this one's.
    """
    changes = _ahead(record, OF_RECORD, now_s)
    if any(_ahead(each, OF_ATTEMPT, now_s) for each in record.attempts):
        changes["attempts"] = tuple(_not_ahead(each, now_s) for each in record.attempts)
    return replace(record, **changes) if changes else record  # type: ignore[arg-type]


def _not_ahead(attempt: Attempt, now_s: float) -> Attempt:
    return replace(attempt, **_ahead(attempt, OF_ATTEMPT, now_s))  # type: ignore[arg-type]


def _ahead(found: object, names: tuple[str, ...], now_s: float) -> dict[str, object]:
    times = {name: getattr(found, name) for name in names}
    return {name: now_s for name, time_s in times.items() if time_s is not None and time_s > now_s}
