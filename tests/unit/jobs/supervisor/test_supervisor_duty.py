"""Which jobs a supervisor takes, how long it stays, and what it leaves to another machine."""

import asyncio
import time
from dataclasses import replace

import pytest

from tpuctl.errors import UsageError
from tpuctl.jobs.interfaces import SYSTEM_CLOCKS
from tpuctl.jobs.leases import lease
from tpuctl.jobs.leases.lease import Lease
from tpuctl.jobs.leases.supervisor_scope import SupervisorScope
from tpuctl.jobs.local import open_jobs
from tpuctl.jobs.record import record_store
from tpuctl.jobs.supervisor import supervisor
from tpuctl.models.job import AttemptState
from tpuctl.operations.jobs.supervise import parse_owners


@pytest.mark.parametrize(
    ("accept", "taken"),
    [
        ("ada@laptop", ["ada@laptop"]),
        ("ada@laptop, bob@desk", ["ada@laptop", "bob@desk"]),
        ("ada@*", ["ada@laptop", "ada@desk"]),
        ("*", ["ada@laptop", "ada@desk", "bob@desk"]),
        ("ada", ["ada@laptop", "ada@desk"]),
        ("lada", []),
    ],
)
def test_accept_names_owners(accept, taken):
    duty = SupervisorScope(parse_owners(accept))
    everybody = ["ada@laptop", "ada@desk", "bob@desk"]
    assert [who for who in everybody if duty.has(Lease("j", "", 0, who))] == taken


@pytest.mark.parametrize("accept", ["", "ada@laptop,", " ,bob@desk"])
def test_an_owner_that_is_empty_is_refused(accept):
    with pytest.raises(UsageError, match="names an owner that is empty"):
        parse_owners(accept)


def test_a_supervisor_for_one_job_takes_no_other():
    duty = SupervisorScope(("me",), only="mine-000000")
    assert duty.has(Lease("mine-000000", "", 0, "whoever"))
    assert not duty.has(Lease("other-000000", "", 0, "me"))


@pytest.mark.parametrize(("stays_s", "over"), [(3.0, True), (3.1, False), (None, False)])
def test_it_ends_when_idle_unless_it_stays(stays_s, over):
    assert SupervisorScope(("me",), stays_s).may_exit(3.0) == over


def supervised(world, duty, said, until) -> None:
    async def story():
        task = asyncio.create_task(
            supervisor.run(world.outside, duty, home=world.home, say=said.append)
        )
        while not until():
            await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(story(), 30))


def bound(world):
    """A job with a secret of the environment of another machine."""
    job = world.submit("true", secrets={"TOKEN": "env:TOKEN"})
    stored = record_store.load(world.store, job.job_id)
    wanted = replace(stored.record, host_id="another", owner="me@laptop")
    return record_store.save(world.store, wanted, stored.generation)


def test_a_job_whose_secrets_are_elsewhere_is_left_to_that_machine(world):
    job = bound(world).record
    said = []
    supervised(world, SupervisorScope(("me",)), said, lambda: said)
    assert said == [
        f"{job.job_id}: this supervisor does not look after it: the value of TOKEN is "
        "known on laptop alone, where "
        "the job was submitted; run there: tpuctl supervisor run"
    ]
    assert (lease.load_lease(world.store, job.job_id).fence, world.tpu.calls) == (0, [])


def test_it_is_ended_by_whoever_is_there(world):
    job = bound(world).record
    record_store.request_cancel(world.store, job.job_id, 1.0)
    assert world.finish(job).state == "CANCELLED"


@pytest.mark.system
def test_a_taken_job_that_needs_them_is_given_back(world):
    """It was watched while it ran, and is to begin again."""
    stored = bound(world)
    node = world.tpu.create("mine")
    job = world.submit("exec sleep 1000", node)
    said = []

    def runs() -> bool:
        now = record_store.load(world.store, job.job_id)
        attempt = now.record.attempt
        if attempt is None or attempt.state != AttemptState.RUNNING:
            return False
        if not now.record.host_id:
            spec = replace(now.record.spec, secrets=stored.record.spec.secrets)
            moved = replace(now.record, host_id="another", spec=spec)
            record_store.save(world.store, moved, now.generation)
        return True

    supervised(world, SupervisorScope(("me",), only=job.job_id), said, runs)
    world.tpu.preempt("mine")
    supervised(world, SupervisorScope(("me",), only=job.job_id), said,
               lambda: any("does not look after it" in line for line in said))  # fmt: skip
    held = lease.load_lease(world.store, job.job_id)
    assert (held.holder, held.fence) == ("", 2)
    assert not [call for call in world.tpu.calls if call.startswith("create")]


def test_what_is_taken_is_known_on_this_machine_until_it_is_settled(world):
    job = world.submit("exec sleep 1000", world.tpu.create("mine"))
    supervised(
        world,
        SupervisorScope(("me",)),
        [],
        lambda: open_jobs.load(world.home, "here").jobs == (job.job_id,),
    )
    record_store.request_cancel(world.store, job.job_id, 1.0)
    world.finish(job)
    assert open_jobs.load(world.home, "here").jobs == ()


def test_a_clock_that_is_set_a_day_forward_ends_nothing(monkeypatch):
    before = SYSTEM_CLOCKS.now()
    tomorrow = time.time() + 86_400
    monkeypatch.setattr(time, "time", lambda: tomorrow)
    assert 0 <= SYSTEM_CLOCKS.now() - before < 3600
