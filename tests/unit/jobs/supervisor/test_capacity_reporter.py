"""A supervisor notes what the requests of its jobs met: once, and whatever the bucket does."""

import asyncio
from dataclasses import replace

from tpuctl.errors import TransientError
from tpuctl.jobs.policy.observation import SliceRefusal
from tpuctl.jobs.supervisor.capacity_reporter import CapacityReporter
from tpuctl.ledger.refusals import load_events
from tpuctl.models.capacity.capacity_event import RefusalCause
from tpuctl.models.job import JobRecord
from tpuctl.store import open_store
from unit.jobs.policy.test_capacity_events import READY, REFUSED, SPEC

BEFORE = JobRecord("digits-1", SPEC, "ada", 99.0, "us-west4-a", "v5litepod-16")
GRANTED = replace(BEFORE, attempts=(READY,))


class ShutStore:
    """A bucket that refuses everything."""

    def __getattr__(self, name):
        def refuse(*_args, **_options):
            raise TransientError("the bucket is away")

        return refuse


def kinds(store) -> list[str]:
    return [event.kind.value for event in load_events(store, 200.0)]


def test_what_is_new_in_the_record_is_noted_once(tmp_path):
    store = open_store(str(tmp_path))
    reporter = CapacityReporter(store, "laptop", BEFORE)

    async def report() -> None:
        await reporter.report(BEFORE)
        assert kinds(store) == []
        await reporter.report(GRANTED)
        written = next(iter(store.list()))
        await reporter.report(replace(GRANTED, why="it runs"))
        assert next(iter(store.list())) == written

    asyncio.run(report())
    assert kinds(store) == ["granted"]


def test_what_another_supervisor_saw_is_not_noted_again(tmp_path):
    store = open_store(str(tmp_path))
    reporter = CapacityReporter(store, "laptop", GRANTED)
    asyncio.run(reporter.report(replace(GRANTED, why="it runs")))
    assert kinds(store) == []


def test_the_cause_is_that_of_the_api_s_refusal(tmp_path):
    store = open_store(str(tmp_path))
    reporter = CapacityReporter(store, "laptop", BEFORE)
    refusal = SliceRefusal("no quota", "no_capacity", "digits-1-a1", cause=RefusalCause.QUOTA)
    reporter.hear([refusal, SliceRefusal("other", "usage", "x")])
    asyncio.run(reporter.report(replace(BEFORE, attempts=(REFUSED,))))
    assert [event.cause for event in load_events(store, 200.0)] == [RefusalCause.QUOTA]


def test_a_bucket_that_refuses_is_no_trouble_of_the_job():
    asyncio.run(CapacityReporter(ShutStore(), "laptop", BEFORE).report(GRANTED))


def test_without_an_observer_nothing_is_noted(tmp_path):
    store = open_store(str(tmp_path))
    asyncio.run(CapacityReporter(store, "", BEFORE).report(GRANTED))
    assert list(store.list()) == []
