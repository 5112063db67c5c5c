"""What a worker prints, however odd, ends nothing but its own attempt."""

import asyncio
import time

import pytest

from tpuctl.jobs.policy import verdict
from tpuctl.jobs.workers import link as links
from tpuctl.jobs.workers import protocol
from tpuctl.jobs.workers.link import Link, Run


@pytest.mark.parametrize("step", [b"9" * 5000, "²".encode(), b"-1", b"", b"12abc"])
def test_a_step_that_is_no_number_is_no_progress(step):
    report = links.connecting(0)
    log = b"1.000 step=%s loss=1\n1.000 resumed step=%s\n" % (step, step)
    assert protocol.with_progress(report, log) == report


def test_the_newest_step_is_progress():
    log = b"1.000 resumed step=40\n1.000 step=41 loss=1\n1.000 step=42\n"
    report = protocol.with_progress(links.connecting(0), log)
    assert (report.resume_step, report.step) == (40, 42)


def test_a_link_that_breaks_is_a_lost_worker_and_says_why():
    async def dial():
        raise ValueError("not what it was hunter22")

    alarms = []

    async def story() -> Link:
        link = Link(
            Run("digits-a1b2c3", 1), links.connecting(1), dial, time.monotonic, asyncio.sleep,
            lambda: alarms.append("changed"), hidden=("hunter22",),
        )  # fmt: skip
        await asyncio.gather(links.kept(link), return_exceptions=True)
        return link

    link = asyncio.run(story())
    found = verdict.of_worker(link.now())
    assert found.outcome == "lost"
    assert found.reason == "worker 1 cannot be followed: ValueError: not what it was ***"
    assert alarms[-1:] == ["changed"]
