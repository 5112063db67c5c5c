"""Whole lives of jobs: the real supervisor and agents, with processes as workers."""

import asyncio
import json
import os
import signal
from dataclasses import replace

import pytest

from tpuctl.errors import LockedError, PreconditionError
from tpuctl.jobs import client
from tpuctl.jobs.interfaces import SYSTEM_CLOCKS
from tpuctl.jobs.leases import lease
from tpuctl.jobs.local import supervisor_lock
from tpuctl.jobs.logs import log_stream
from tpuctl.jobs.record import record_store as records
from tpuctl.models.job import Restart, Teardown
from tpuctl.models.job_log import LogLine

STEPS = 'for i in 1 2 3; do echo "step=$i loss=0.5"; done'
ENDLESS = 'echo "step=$TPUCTL_ATTEMPT"; echo up; exec sleep 1000'


def texts(world, job):
    return sorted(
        (line.worker_id, line.text) for line in log_stream.read(world.outside, job.job_id)
    )


def is_running(record):
    return record.state == "RUNNING" and all(
        report.phase == "running" for report in record.attempt.workers
    )


def test_a_job_runs_on_every_worker_of_a_slice_of_its_own_and_gives_it_back(world):
    world.tpu.workers = 2
    job = world.submit(f"echo $TPUCTL_WORKER_ID of $TPUCTL_WORKER_COUNT; {STEPS}")
    record = world.finish(job)
    assert (record.state, record.attempt.outcome) == ("SUCCEEDED", "succeeded")
    assert record.is_settled
    assert (record.attempt.last_step, record.attempt.resume_step) == (3, 0)
    slice_name = f"{job.job_id}-a1"
    assert world.tpu.calls == [f"create {slice_name}", f"delete {slice_name}"]
    assert texts(world, job)[:1] == [(0, "0 of 2")]
    assert len(texts(world, job)) == 8
    assert lease.list_leases(world.store, {}) == []


def test_the_workdir_and_setup_are_there_before_the_program(world, tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "hello.txt").write_text("hello from the workdir\n")
    job = world.submit(
        "cat hello.txt made", setup="echo made > made", workdir=str(tmp_path / "work")
    )
    assert world.finish(job).state == "SUCCEEDED"
    assert texts(world, job)[:2] == [(0, "hello from the workdir"), (0, "made")]


def test_an_existing_slice_is_used_and_never_torn_down(world):
    job = world.submit(STEPS, world.tpu.create("mine"))
    record = world.finish(job)
    assert (record.state, record.attempt.owned) == ("SUCCEEDED", False)
    assert world.tpu.calls == []
    assert world.tpu.nodes["mine"].metadata["ssh-keys"] == "tpuctl:ssh-ed25519 K"


def test_one_failure_stops_the_gang_and_fails_the_job(world):
    world.tpu.workers = 2
    program = "if [ $TPUCTL_WORKER_ID = 1 ]; then exit 7; fi; exec sleep 1000"
    job = world.submit(program, teardown=Teardown.ON_SUCCESS)
    record = world.finish(job)
    assert (record.state, record.attempt.outcome) == ("FAILED", "failed")
    assert record.attempt.reason == "worker 1: the program ended with status 7"
    first, second = record.attempt.workers
    assert (first.signal, first.stopped) == (signal.SIGTERM, True)
    assert (second.exit_status, second.stopped) == (7, False)
    assert world.tpu.calls == [f"create {job.job_id}-a1"]  # kept to be looked at


def test_a_listed_exit_code_restarts_on_the_same_slice(world):
    job = world.submit(
        "echo step=$TPUCTL_ATTEMPT; [ $TPUCTL_ATTEMPT = 2 ] || exit 75",
        restart=Restart(exit_codes=(75,)),
    )
    record = world.finish(job)
    assert [attempt.outcome for attempt in record.attempts] == ["failed", "succeeded"]
    assert {attempt.node for attempt in record.attempts} == {f"{job.job_id}-a1"}
    assert world.tpu.calls[0] == f"create {job.job_id}-a1"
    assert len(world.tpu.calls) == 2


def test_a_preempted_slice_of_the_users_is_replaced_by_one_of_the_jobs_own(world):
    node = world.tpu.create("mine")
    job = world.submit(f"[ $TPUCTL_ATTEMPT = 2 ] && exit 0; {ENDLESS}", node)

    async def story():
        supervising = asyncio.create_task(world.supervise())
        await world.until(job, is_running)
        world.tpu.preempt("mine")
        await asyncio.wait_for(supervising, 20)

    asyncio.run(story())
    record = world.record(job)
    assert [(a.owned, a.outcome) for a in record.attempts] == [
        (False, "preempted"), (True, "succeeded"),
    ]  # fmt: skip
    assert world.tpu.calls == [f"create {job.job_id}-a2", f"delete {job.job_id}-a2"]


@pytest.mark.parametrize("own", [False, True])
def test_a_slice_that_somebody_deleted_ends_the_job_and_is_not_replaced(world, own):
    job = world.submit(ENDLESS, None if own else world.tpu.create("mine"))
    node = f"{job.job_id}-a1" if own else "mine"

    async def story():
        supervising = asyncio.create_task(world.supervise())
        await world.until(job, is_running)
        world.tpu.requests.pop(node, None)
        world.tpu.kill(node)
        del world.tpu.nodes[node]
        await asyncio.wait_for(supervising, 20)

    asyncio.run(story())
    record = world.record(job)
    assert (record.state, [each.outcome for each in record.attempts]) == ("FAILED", ["preempted"])
    reason = "somebody deleted its slice" if own else "node mine is gone"
    assert record.attempt.reason == reason
    assert world.tpu.calls == ([f"create {node}"] if own else [])


def test_a_killed_program_is_a_failure_and_a_killed_agent_a_loss(world):
    job = world.submit(
        f"[ $TPUCTL_ATTEMPT = 3 ] && exit 0; {ENDLESS}",
        world.tpu.create("mine"),
        restart=Restart(failure=1),
    )

    async def kill(attempt: int, pid: str, send) -> None:
        await world.until(job, lambda found: is_running(found) and len(found.attempts) == attempt)
        status = world.disk("mine", 0) / f".tpuctl/jobs/{job.job_id}-a{attempt}/status.json"
        send(json.loads(status.read_text())[pid], signal.SIGKILL)

    async def story():
        supervising = asyncio.create_task(world.supervise())
        await kill(1, "pid", os.killpg)
        await kill(2, "agent_pid", os.kill)
        await asyncio.wait_for(supervising, 25)

    asyncio.run(story())
    record = world.record(job)
    assert [attempt.outcome for attempt in record.attempts] == ["failed", "lost", "succeeded"]
    assert record.attempts[0].reason == "worker 0: the program was killed by signal 9"
    assert record.attempts[1].reason == "worker 0 lost its agent"


def test_cancel_stops_every_worker_and_gives_the_slice_back(world):
    world.tpu.workers = 2
    job = world.submit(ENDLESS)

    async def story():
        supervising = asyncio.create_task(world.supervise())
        await world.until(job, is_running)
        client.cancel(world.store, job.job_id, 1.0)
        await asyncio.wait_for(supervising, 20)

    asyncio.run(story())
    record = world.record(job)
    assert (record.state, record.attempt.outcome) == ("CANCELLED", "cancelled")
    assert world.tpu.requests == {}
    assert all(report.signal == signal.SIGTERM for report in record.attempt.workers)


def test_a_supervisor_that_ends_leaves_the_job_running_for_the_next(world):
    job = world.submit('echo up; while [ ! -e "$HOME/end" ]; do sleep 0.05; done')

    async def first():
        supervising = asyncio.create_task(world.supervise())
        await world.until(job, is_running)
        supervising.cancel()
        await asyncio.gather(supervising, return_exceptions=True)

    async def second():
        supervising = asyncio.create_task(world.supervise())
        await world.until(job, lambda found: found.fence == 2)
        (world.disk(f"{job.job_id}-a1", 0) / "end").touch()
        await asyncio.wait_for(supervising, 20)

    asyncio.run(first())
    assert world.record(job).state == "RUNNING"
    asyncio.run(second())
    record = world.record(job)
    assert (record.state, len(record.attempts), record.fence) == ("SUCCEEDED", 1, 2)
    assert texts(world, job) == [(0, "up")]


def test_an_api_that_is_away_fails_nothing(world):
    job = world.submit('echo up; while [ ! -e "$HOME/end" ]; do sleep 0.05; done')

    async def story():
        supervising = asyncio.create_task(world.supervise())
        await world.until(job, is_running)
        world.tpu.away = True
        (world.disk(f"{job.job_id}-a1", 0) / "end").touch()
        await world.until(job, lambda found: found.is_ended)
        world.tpu.away = False
        await asyncio.wait_for(supervising, 20)

    asyncio.run(story())
    assert world.record(job).state == "SUCCEEDED"
    assert world.tpu.requests == {}


def test_preemption_makes_a_new_slice_and_follow_shows_every_line_of_both_attempts(world):
    world.tpu.workers = 2
    program = f"[ $TPUCTL_ATTEMPT = 2 ] && echo resumed step=1 && exit 0; {ENDLESS}"
    job = world.submit(program)
    items = []

    async def story():
        supervising = asyncio.create_task(world.supervise())
        async for item in log_stream.follow(world.outside, job.job_id, clocks=SYSTEM_CLOCKS):
            items.append(item)
            ups = [each for each in items if isinstance(each, LogLine) and each.text == "up"]
            if len(ups) == 2 and isinstance(item, LogLine) and item.text == "up":
                # The supervisor has them too; the agents upload every 15 s, and do not get to.
                await world.until(job, lambda _: "".join(world.heard).count(" up") == 4)
                world.tpu.preempt(f"{job.job_id}-a1")
        await asyncio.wait_for(supervising, 20)

    asyncio.run(asyncio.wait_for(story(), 30))
    record = world.record(job)
    assert [attempt.outcome for attempt in record.attempts] == ["preempted", "succeeded"]
    assert (record.attempts[0].last_step, record.attempts[1].resume_step) == (1, 1)
    assert world.tpu.calls == [
        f"create {job.job_id}-a1", f"delete {job.job_id}-a1",
        f"create {job.job_id}-a2", f"delete {job.job_id}-a2",
    ]  # fmt: skip
    lines = [(i.attempt, i.worker_id, i.text) for i in items if isinstance(i, LogLine)]
    first = [(1, worker, text) for worker in (0, 1) for text in ("step=1", "up")]
    assert sorted(lines[:4]) == first
    assert sorted(lines[4:]) == [(2, 0, "resumed step=1"), (2, 1, "resumed step=1")]
    assert texts(world, job) == sorted((worker, text) for _, worker, text in lines)
    assert "attempt 1 preempted: node" in " ".join(
        event.text for item in items if not isinstance(item, LogLine) for event in item.events
    )


def test_a_stale_supervisor_has_its_writes_refused(world):
    job = world.submit("true")
    stored = records.load(world.store, job.job_id)
    records.save(world.store, replace(stored.record, fence=2), stored.generation)
    with pytest.raises(PreconditionError):
        records.save(world.store, replace(stored.record, fence=1), stored.generation)


def test_two_supervisors_of_one_context_on_one_machine_are_one_too_many(world):
    with supervisor_lock.hold(world.home, "here"), pytest.raises(LockedError):
        asyncio.run(world.supervise())
