"""What a worker prints, however odd, ends nothing but its own attempt."""

import asyncio
from dataclasses import replace

import pytest

from tpuctl.jobs.interfaces import SYSTEM_CLOCKS
from tpuctl.jobs.policy import attempt_end
from tpuctl.jobs.record import decoding
from tpuctl.jobs.workers import protocol
from tpuctl.jobs.workers import worker_connection as links
from tpuctl.jobs.workers.worker_connection import WorkerConnection
from tpuctl.models.job import SaveWait, WorkerReport


@pytest.mark.parametrize("step", [b"9" * 5000, "²".encode(), b"-1", b"", b"12abc"])
def test_a_step_that_is_no_number_is_no_progress(step):
    report = WorkerReport(0)
    log = b"1.000 step=%s loss=1\n1.000 resumed step=%s\n" % (step, step)
    assert protocol.with_progress(report, log) == report


def test_the_newest_step_is_progress():
    log = b"1.000 resumed step=40\n1.000 step=41 loss=1\n1.000 step=42\n"
    report = protocol.with_progress(WorkerReport(0), log)
    assert (report.resume_step, report.step) == (40, 42)


def test_when_steps_were_told_is_taken_from_the_status():
    report = protocol.apply_status(WorkerReport(0), {"step": 3, "step_times": {"1": 2.5, "3": 4}})
    assert report.step_times == {"1": 2.5, "3": 4}


@pytest.mark.parametrize(
    "table", [[1], {"x": 1.0}, {"1": "soon"}, {str(n): 1.0 for n in range(99)}]
)
def test_a_table_of_steps_that_is_none_is_refused(table):
    with pytest.raises(decoding.MalformedError):
        protocol.apply_status(WorkerReport(0), {"step_times": table})


def test_waits_for_checkpoints_are_taken_from_the_status():
    rows = [{"after_s": 7.5, "waited_s": 0.25}]
    report = protocol.apply_status(WorkerReport(0), {"save_waits": rows})
    assert report.save_waits == (SaveWait(7.5, 0.25),)
    for wrong in ({"a": 1}, [[7.5, 0.25]], [{"after_s": 7.5}], rows * 99, [{"after_s": "x"}]):
        with pytest.raises(decoding.MalformedError):
            protocol.apply_status(WorkerReport(0), {"save_waits": wrong})


def test_a_link_that_breaks_is_a_lost_worker_and_says_why():
    async def dial():
        raise ValueError("not what it was hunter22")

    alarms = []

    async def story() -> WorkerConnection:
        link = WorkerConnection(
            ".tpuctl/jobs/digits-a1b2c3-a1", WorkerReport(1), dial, SYSTEM_CLOCKS,
            lambda: alarms.append("changed"), hidden=("hunter22",),
        )  # fmt: skip
        await asyncio.gather(links.start_keeping(link), return_exceptions=True)
        return link

    link = asyncio.run(story())
    found = attempt_end.end_by_worker(link.now())
    assert found.outcome == "lost"
    assert found.reason == "worker 1 cannot be followed: ValueError: not what it was ***"
    assert alarms[-1:] == ["changed"]


def test_a_sample_that_makes_no_sense_loses_no_worker():
    heard = []
    link = WorkerConnection(
        ".tpuctl/jobs/digits-a1b2c3-a1", WorkerReport(1), None, SYSTEM_CLOCKS, lambda: None,
        on_sample=heard.append,
    )  # fmt: skip
    for sample in ({"time_s": "soon"}, {"time_s": 1.0, "values": {"host.load_1m": 2.0}}):
        link._take({"status": {"phase": "running", "sample": sample}})
    assert (link.report.phase, [each.time_s for each in heard]) == ("running", [1.0])


def test_a_sample_counts_as_recent_for_a_while_and_not_after_the_run():
    now = [100.0]
    link = WorkerConnection(
        ".tpuctl/jobs/digits-a1b2c3-a1", WorkerReport(1), None,
        replace(SYSTEM_CLOCKS, monotonic=lambda: now[0]), lambda: None,
    )  # fmt: skip
    assert link.recent_sample(25.0) is None
    told = {"status": {"sample": {"time_s": 1.0, "values": {"host.load_1m": 2.0}}}}
    link._take(told)
    now[0] = 125.0
    assert link.recent_sample(25.0).values == {"host.load_1m": 2.0}
    link._take(told)  # nothing new
    now[0] = 125.1
    assert link.recent_sample(25.0) is None
    link._take({"status": {"sample": {"time_s": 2.0, "values": {}}}, "gone": False})
    assert link.recent_sample(25.0) is None
