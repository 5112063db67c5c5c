"""The record as its controller writes it: what is written, when, and what others wish meanwhile."""

import asyncio
from dataclasses import replace

import pytest

from tpuctl.jobs.interfaces import Clocks
from tpuctl.jobs.leases.lease import Lease, LeaseLostError
from tpuctl.jobs.leases.supervisor_scope import SupervisorScope
from tpuctl.jobs.record import record_store as records
from tpuctl.jobs.supervisor.record_writer import PROGRESS_S, RECHECK_S, RecordWriter
from tpuctl.models.job import Attempt, AttemptState, JobRecord, JobSpec, WorkerReport
from tpuctl.models.notify.notify_spec import NotifyTarget, TargetKind
from tpuctl.store import open_store

REPORT = WorkerReport(0, "running", step=1, rss_bytes=10)
JOB = JobRecord(
    "j", JobSpec("j", "true"), "me", 0.0, "z", "v5litepod-1",
    attempts=(Attempt(1, "z", "n", AttemptState.RUNNING, owned=True, workers=(REPORT,)),),
)  # fmt: skip


@pytest.fixture
def now():
    return [0.0]


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path))


@pytest.fixture
def writer(store, now):
    stored = records.create(store, JOB)
    clocks = Clocks(lambda: now[0], lambda: now[0], asyncio.sleep)
    made = RecordWriter(store, Lease("j", "seat-a", 2, "me"), clocks, stored)
    asyncio.run(made.claim())
    return made


def reported(**changes) -> JobRecord:
    attempt = replace(JOB.attempts[0], workers=(replace(REPORT, **changes),))
    return replace(JOB, fence=2, attempts=(attempt,))


@pytest.mark.parametrize(
    ("changes", "news", "due"),
    [
        ({"phase": "ended"}, True, True),
        ({"step": 2}, False, True),
        ({"metrics": {"loss": 0.5}}, False, True),
        ({"rss_bytes": 11, "active_s": 5.0, "quiet_s": 5.0}, False, False),
        ({}, False, False),
    ],
)
def test_news_is_written_at_once_and_progress_now_and_then(writer, now, changes, news, due):
    assert writer.is_news(reported(**changes)) == news
    assert not writer.is_due(reported(**changes))
    now[0] += PROGRESS_S
    assert writer.is_due(reported(**changes)) == due


def test_twenty_jobs_that_move_stay_below_two_writes_a_minute_each():
    renew_s = SupervisorScope(("me",)).terms.renew_s
    assert 60.0 / PROGRESS_S + 60.0 / renew_s / 20 <= 2.0


def test_a_wish_is_kept_through_our_own_writes(writer, store):
    records.request_cancel(store, "j", 5.0)
    asyncio.run(writer.save(reported(step=7)))
    found = records.load(store, "j").record
    assert (found.cancel_requested_s, found.attempt.workers[0].step) == (5.0, 7)


def test_a_wish_is_heard_when_the_lease_is_rung_or_after_a_while(writer, store, now):
    asyncio.run(writer.check_for_changes())
    records.request_cancel(store, "j", 5.0)
    asyncio.run(writer.check_for_changes())
    assert writer.record.cancel_requested_s is None
    now[0] += RECHECK_S
    asyncio.run(writer.check_for_changes())
    assert writer.record.cancel_requested_s == 5.0


def test_ringing_makes_it_heard_now(writer, store):
    asyncio.run(writer.check_for_changes())
    records.request_cancel(store, "j", 5.0)
    writer.recheck()
    asyncio.run(writer.check_for_changes())
    assert writer.record.cancel_requested_s == 5.0


def test_a_record_under_a_higher_fence_is_another_supervisors(writer, store):
    stored = records.load(store, "j")
    records.save(store, replace(stored.record, fence=3), stored.generation)
    with pytest.raises(LeaseLostError):
        asyncio.run(writer.check_for_changes())
    with pytest.raises(LeaseLostError):
        asyncio.run(
            RecordWriter(writer.store, writer.lease, writer.clocks, stored).save(reported())
        )
    assert records.load(store, "j").record.fence == 3


def test_a_claim_takes_in_the_last_write_of_an_earlier_holder(store, now):
    stored = records.create(store, JOB)
    late = records.save(
        store, replace(JOB, fence=1, why="the last of its words"), stored.generation
    )
    clocks = Clocks(lambda: now[0], lambda: now[0], asyncio.sleep)
    writer = RecordWriter(store, Lease("j", "seat-a", 2, "me"), clocks, stored)
    asyncio.run(writer.claim())
    found = records.load(store, "j")
    assert (found.record.why, found.record.fence) == ("the last of its words", 2)
    assert found.generation > late.generation


@pytest.mark.parametrize(("state", "stopping_s"), [("STOPPING", 80.0), ("RUNNING", 5.0)])
def test_who_takes_over_while_a_gang_stops_waits_for_its_workers_anew(
    store, now, state, stopping_s
):
    left = replace(JOB.attempts[0], state=AttemptState(state), stopping_s=5.0)
    stored = records.create(store, replace(JOB, attempts=(left,)))
    now[0] = 80.0
    clocks = Clocks(lambda: now[0], lambda: now[0], asyncio.sleep)
    asyncio.run(RecordWriter(store, Lease("j", "seat-a", 2, "me"), clocks, stored).claim())
    assert records.load(store, "j").record.attempt.stopping_s == stopping_s


TOLD = (NotifyTarget(TargetKind.WEBHOOK, "https://ops.example.com"),)


@pytest.mark.parametrize(("notify", "left_s"), [(None, None), (TOLD, 7.0)])
def test_who_ends_in_order_says_when_where_somebody_is_to_be_told(store, now, notify, left_s):
    stored = records.create(store, replace(JOB, spec=replace(JOB.spec, notify=notify)))
    clocks = Clocks(lambda: now[0], lambda: now[0], asyncio.sleep)
    writer = RecordWriter(store, Lease("j", "seat-a", 2, "me"), clocks, stored)
    asyncio.run(writer.claim())
    now[0] = 7.0
    asyncio.run(writer.save_progress())
    assert records.load(store, "j").record.left_s == left_s
    again = RecordWriter(store, Lease("j", "seat-b", 3, "me"), clocks, records.load(store, "j"))
    asyncio.run(again.claim())
    assert records.load(store, "j").record.left_s is None
