"""The same failure twice with nothing saved in between."""

from dataclasses import replace

import pytest

from tpuctl.models.job import JobRecord, Phase, Restart
from unit.jobs.job_steps import ENDED, RAN, job, lived, seen

BOOM = {**ENDED, "exit_status": 1, "ended_s": 4.5, "traceback": "ValueError: nan\n  at train.py"}
OTHER = {**BOOM, "traceback": "KeyError: 'loss'"}
SILENT = {**BOOM, "traceback": ""}


def failing(*attempts: tuple[dict, float | None], failure: int = 5) -> JobRecord:
    """Each attempt ends with that report of worker 0, and with that newest checkpoint."""
    record, now_s = lived(job(restart=Restart(failure=failure)), *RAN).record, 5.0
    for report, saved_s in attempts:
        up = {"phase": Phase.RUNNING}
        prepared = {"phase": Phase.PREPARED}
        stopped = {**ENDED, "signal": 15, "stopped": True}
        record = lived(
            record, seen(now_s, prepared, prepared), seen(now_s + 1, up, up),
            replace(seen(now_s + 2, report, stopped), saved_s=saved_s),
            replace(seen(now_s + 3, report, stopped), saved_s=saved_s),
        ).record  # fmt: skip
        now_s += 10.0
    return record


@pytest.mark.parametrize(
    ("first", "second", "is_loop"),
    [
        ((BOOM, 0.0), (BOOM, 0.0), True),
        ((BOOM, 100.0), (BOOM, 100.0), True),
        ((BOOM, 100.0), (BOOM, 200.0), False),
        ((BOOM, 0.0), (OTHER, 0.0), False),
        ((BOOM, 0.0), ({**BOOM, "exit_status": 2}, 0.0), False),
        ((SILENT, 0.0), (SILENT, 0.0), False),
        ((BOOM, None), (BOOM, 0.0), False),
        ((BOOM, 0.0), (BOOM, None), False),
    ],
)
def test_twice_the_same_without_progress_ends_the_job(first, second, is_loop):
    record = failing(first, second)
    assert record.is_ended == is_loop
    if is_loop:
        assert record.why == (
            "crash loop: the same failure twice, and no new checkpoint: "
            "worker 0: the program ended with status 1"
        )


def test_a_workdir_that_was_exchanged_ends_the_job_at_once():
    record = failing(({**BOOM, "stage": "fetch", "exit_status": 65}, None))
    assert record.is_ended
    assert record.why == "worker 0: the workdir in the bucket is not the one that was submitted"


def test_a_failure_in_between_that_is_another_one_breaks_the_loop():
    assert not failing((BOOM, 0.0), (OTHER, 0.0), (BOOM, 0.0)).is_ended
    assert failing((OTHER, 0.0), (BOOM, 0.0), (BOOM, 0.0)).is_ended


def test_a_retry_by_hand_begins_to_count_anew():
    record = failing((BOOM, 0.0), (BOOM, 0.0))
    again = replace(record, state="QUEUED", retried_after=2)
    assert not failing_once_more(again).is_ended


def failing_once_more(record: JobRecord) -> JobRecord:
    prepared, up = {"phase": Phase.PREPARED}, {"phase": Phase.RUNNING}
    return lived(
        record, seen(50.0), seen(51.0, prepared, prepared), seen(52.0, up, up),
        replace(seen(53.0, BOOM, up), saved_s=0.0),
        replace(seen(54.0, BOOM, {**ENDED, "signal": 15, "stopped": True}), saved_s=0.0),
    ).record  # fmt: skip
