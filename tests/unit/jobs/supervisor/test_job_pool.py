"""Jobs in one supervisor's hands: how they are let go of, also when the bucket is in the way."""

import asyncio
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from tpuctl.errors import TransientError
from tpuctl.jobs.interfaces import Clocks
from tpuctl.jobs.leases import lease as leasing
from tpuctl.jobs.leases.heartbeat import Heartbeat, HeartbeatWatcher
from tpuctl.jobs.leases.heartbeat_sender import HeartbeatSender
from tpuctl.jobs.leases.job_steps import with_newest_steps
from tpuctl.jobs.leases.lease import LeaseLostError
from tpuctl.jobs.leases.supervisor_scope import SupervisorScope
from tpuctl.jobs.record import record_store as records
from tpuctl.jobs.secrets.job_secrets import SecretCache
from tpuctl.jobs.supervisor import job_pool as custody
from tpuctl.jobs.supervisor.controller import JobController, WrongHostError
from tpuctl.jobs.supervisor.job_pool import TROUBLE_S, JobPool
from tpuctl.jobs.supervisor.record_writer import RecordWriter
from tpuctl.models.job import Attempt, AttemptState, JobRecord, JobSpec, JobState
from tpuctl.models.notify.notify_spec import NotifyTarget, TargetKind
from tpuctl.store import open_store

OURS = "here-1"
JOB = JobRecord(
    "digits-a1b2c3", JobSpec("digits", "true", secrets={"TOKEN": "env:TOKEN"}), "me@laptop", 0.0,
    "us-west4-a", "v5litepod-8", host_id="laptop",
)  # fmt: skip


@dataclass
class Held:
    """A job that is ours, in a custody whose clock is in the test's hand."""

    job_pool: JobPool
    store: object
    now: list[float]
    said: list[str] = field(default_factory=list)

    @property
    def lease(self):
        return leasing.load_lease(self.store, JOB.job_id)


@pytest.fixture
def held(tmp_path):
    store, now, said = open_store(str(tmp_path)), [0.0], []
    leasing.take(store, leasing.offer(store, JOB.job_id, JOB.owner), OURS)
    records.create(store, JOB)
    beat = SimpleNamespace(is_fresh=lambda: True, check=lambda: None)
    clocks = Clocks(lambda: now[0], lambda: now[0], asyncio.sleep)
    made = JobPool(
        SimpleNamespace(store=store), clocks, SecretCache("here", {}),
        SimpleNamespace(holder=OURS, heartbeat=beat), SimpleNamespace(is_dead=lambda who: not who),
        said.append,
    )  # fmt: skip
    return Held(made, store, now, said)


def test_a_job_that_could_not_be_given_back_is_given_back_later(held, monkeypatch):
    async def elsewhere(_self, _lease):
        raise WrongHostError("no TOKEN")

    def refused(*_):
        raise TransientError("the bucket is away")

    monkeypatch.setattr(JobPool, "_care_once", elsewhere)
    release, lease = leasing.release, held.lease
    monkeypatch.setattr(custody.leasing, "release", refused)

    async def story():
        held.job_pool.tasks[JOB.job_id] = asyncio.create_task(held.job_pool._care(lease))
        await asyncio.wait(held.job_pool.tasks.values())
        await held.job_pool.reap({JOB.job_id: lease})
        assert held.job_pool.is_holding
        monkeypatch.setattr(custody.leasing, "release", release)
        held.now[0] += TROUBLE_S
        await held.job_pool.consider(held.lease)

    asyncio.run(story())
    assert held.lease.holder == ""
    assert not held.job_pool.is_holding


@pytest.mark.parametrize(
    ("taken_by", "holder", "fence"), [(None, "", 3), ("another-2", "another-2", 4)]
)
def test_a_job_that_was_tried_again_as_it_settled_is_offered_unless_somebody_has_it(
    held, monkeypatch, taken_by, holder, fence
):
    lease, drop = held.lease, leasing.drop

    def and_meanwhile(store, of_job):
        drop(store, of_job)
        stored = records.load(store, JOB.job_id)
        records.save(store, replace(JOB, fence=3), stored.generation)
        if taken_by:
            leasing.reoffer(store, JOB.job_id, JOB.owner, 3)
            leasing.take(store, leasing.load_lease(store, JOB.job_id), taken_by)

    monkeypatch.setattr(custody.leasing, "drop", and_meanwhile)
    settled = []
    held.job_pool.settled = settled.append
    held.job_pool._settle(held.job_pool.backends, lease)
    assert ((held.lease.holder, held.lease.fence), settled) == ((holder, fence), [])


def test_the_lease_of_a_job_that_is_settled_is_gone(held):
    stored = records.load(held.store, JOB.job_id)
    records.save(held.store, replace(JOB, state=JobState.FAILED), stored.generation)
    settled = []
    held.job_pool.settled = settled.append
    held.job_pool._settle(held.job_pool.backends, held.lease)
    assert (held.lease, settled) == (None, [JOB.job_id])


def test_the_workers_are_let_go_of_though_their_tails_may_not_be_saved():
    closed = []

    async def refused(*_):
        raise LeaseLostError

    async def close():
        closed.append(True)

    gang = SimpleNamespace(attempt=1, save_tails=refused, close=close)
    care = SimpleNamespace(gang=gang, backends=None, clocks=SimpleNamespace(sleep=None))
    ended = Attempt(1, "z", "n", AttemptState.ENDED, owned=True)
    with pytest.raises(LeaseLostError):
        asyncio.run(JobController._close_ended_gang(care, replace(JOB, attempts=(ended,))))
    assert (closed, care.gang) == ([True], None)


def running(last_step: int) -> JobRecord:
    attempt = Attempt(1, "us-west4-a", "n1", AttemptState.RUNNING, owned=True)
    attempt = replace(attempt, started_s=1.0, last_step=last_step)
    return replace(JOB, state=JobState.RUNNING, attempts=(attempt,))


def sender_of(held: Held, host_id: str) -> HeartbeatSender:
    pool, scope = held.job_pool, SupervisorScope(("me@laptop",))
    return HeartbeatSender(held.store, host_id, scope, pool.clocks, pool.say, pool.newest_steps)


def test_who_lists_jobs_finds_their_newest_steps_in_the_heartbeat(held):
    newest, written, pool = running(120), running(80), held.job_pool
    pool.controllers[JOB.job_id] = SimpleNamespace(record=newest)
    asyncio.run(sender_of(held, "here").beat(lambda: None))
    (listed,) = with_newest_steps(held.store, [written])
    assert listed == newest


def test_a_step_is_never_taken_back_by_a_takeover(held, monkeypatch):
    """A dead holder's heartbeat said 120 and its last record 80: who looks meanwhile sees 120."""
    generation = records.load(held.store, JOB.job_id).generation
    records.save(held.store, replace(running(80), spec=JobSpec("digits", "true")), generation)
    steps = {JOB.job_id: {"attempt": 1, "step": 120}, "another": {"attempt": 1, "step": 7}}
    Heartbeat(held.store, OURS, {"steps": steps}, lambda: 0.0).beat()
    pool, shown = held.job_pool, []

    def look(*_):
        (listed,) = with_newest_steps(held.store, [records.load(held.store, JOB.job_id).record])
        shown.append(listed.attempt.last_step)

    async def look_and_end(controller):
        look()
        await controller.record_writer.claim()
        await pool.heartbeat_sender.beat(pool.abandon)
        look()
        raise LeaseLostError

    monkeypatch.setattr(custody, "fenced_backends", lambda backends, *_: backends)
    monkeypatch.setattr(JobController, "run_until_settled", look_and_end)
    delete = HeartbeatWatcher.delete_heartbeat
    monkeypatch.setattr(
        HeartbeatWatcher,
        "delete_heartbeat",
        lambda *watched: (look(), delete(*watched), look())[1],
    )

    async def take_over():
        pool.heartbeat_sender = sender_of(held, "there")
        pool.watcher = HeartbeatWatcher(pool.clocks.monotonic, frozenset({"here"}))
        pool.watcher.look(held.store)
        await pool.consider(held.lease)
        await asyncio.gather(*pool.tasks.values())

    asyncio.run(take_over())
    assert shown == [120] * 4
    assert records.load(held.store, JOB.job_id).record.attempt.last_step == 120
    assert pool.inherited_steps.keys() == {"another"}


def test_who_leaves_writes_the_steps_that_its_heartbeat_told(held):
    stored = records.load(held.store, JOB.job_id)
    writer = RecordWriter(held.store, held.lease, held.job_pool.clocks, stored)
    held.job_pool.controllers[JOB.job_id] = SimpleNamespace(record_writer=writer)

    async def leave(last_step):
        writer.keep(running(last_step))
        await held.job_pool.save_progress()
        return records.load(held.store, JOB.job_id).record.attempt

    assert asyncio.run(leave(80)) is None  # not ours before the first write under our fence
    asyncio.run(writer.claim())
    assert asyncio.run(leave(120)).last_step == 120
    records.request_cancel(held.store, JOB.job_id, 5.0)
    assert asyncio.run(leave(140)).last_step == 140
    assert records.load(held.store, JOB.job_id).record.cancel_requested_s == 5.0


@pytest.mark.parametrize(
    ("fence", "left_s", "since_s"),
    [(0, None, 40.0), (2, 900.0, 900.0), (2, None, 1000.0 - (520.0 - 120.0))],
)
def test_it_is_known_since_when_nobody_looked_after_a_job(
    held, monkeypatch, fence, left_s, since_s
):
    """Never, since it was left in order, or since a heartbeat that the storage service dates."""
    beats = {"dead-1": 120.0, OURS: 520.0}
    monkeypatch.setattr(custody, "beat_time_s", lambda _store, holder: beats.get(holder))

    async def taken(_self, lease):
        return lease

    monkeypatch.setattr(JobPool, "_take_lease", taken)
    held.now[0] = 1000.0
    target = NotifyTarget(TargetKind.WEBHOOK, "https://ops.example.com")
    spec = replace(JOB.spec, notify=(target,))
    record = replace(JOB, spec=spec, submitted_s=40.0, left_s=left_s)
    lease = replace(held.lease, holder="dead-1", fence=fence)
    asyncio.run(held.job_pool._take_watched(lease, record))
    assert held.job_pool.silences == {JOB.job_id: since_s}
    held.job_pool.silences = {}
    asyncio.run(held.job_pool._take_watched(lease, replace(record, spec=JOB.spec)))
    assert held.job_pool.silences == {}
