"""Jobs that ask several zones and types at once: one slice runs them, and nothing else is left.

The supervisors and the agents are real; the cloud is the shared simulator, whose time tests move.
"""

import asyncio
import time
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

import pytest

from system.stories.test_takeover import Machine
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.jobs.leases.heartbeat import DEFAULT_TERMS, LeaseTerms
from tpuctl.jobs.leases.supervisor_scope import SupervisorScope
from tpuctl.jobs.logs import log_stream
from tpuctl.jobs.record import record_store
from tpuctl.jobs.submit.job_submission import Submitter, submit
from tpuctl.jobs.supervisor import supervisor
from tpuctl.ledger.refusals import load_events
from tpuctl.models.job import JobSpec, Resources
from tpuctl.models.search import Search
from tpuctl.operations.slices import spending

HERE, THERE = "us-west4-a", "us-west1-c"
DEADLINE_S = 60.0
TERMS = LeaseTerms(renew_s=0.5, hold_s=4.0, dead_after_s=6.0)
"""Those of a `Machine`."""


class Story:
    """A job of the shared simulator, and what its supervisors and the cloud make of it."""

    def __init__(self, cloud, home: Path) -> None:
        self.cloud, self.home = cloud, home
        self.runtime = Runtime(environ={"TPUCTL_HOME": str(cloud.home)})
        self.outside = self.runtime.outside
        self.nodes: set[tuple[str, str]] = set()

    def submit(self, *types: str, zones=(HERE, THERE), **search) -> None:
        resources = Resources(types[0], zones=zones, alternatives=types[1:])
        spec = JobSpec("seek", "echo up", resources=resources, search=Search(**search))
        self.job_id = submit(spec, self.outside, Submitter("me"), now_s=time.time()).job_id

    @asynccontextmanager
    async def supervised(self, terms: LeaseTerms = DEFAULT_TERMS):
        """A supervisor of another machine, in this process."""
        scope = SupervisorScope(("me",), None, terms=terms)
        task = asyncio.create_task(supervisor.run(self.outside, scope, home=self.home))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def until(self, condition) -> record_store.JobRecord:
        """The record as soon as it is so; the nodes that there were meanwhile are noted."""
        last_s = time.monotonic() + DEADLINE_S
        while True:
            found = await asyncio.to_thread(self.look)
            if condition(found):
                return found
            assert time.monotonic() < last_s, (found.state, found.why, found.events)
            await asyncio.sleep(0.05)

    def look(self) -> record_store.JobRecord:
        self.nodes |= {(node.zone, node.name) for node in self.outside.tpu.list_nodes()[0]}
        return record_store.load(self.outside.store, self.job_id).record

    async def asked(self, count: int) -> None:
        """So many requests are at the API, which knows of no other."""
        await self.until(lambda _: len(self.requests()) == count)

    def requests(self) -> dict[str, str]:
        return {each.name: each.zone for each in self.outside.tpu.list_queued_resources()[0]}

    async def settled(self) -> record_store.JobRecord:
        """The job has ended; the simulated time goes on as fast as the job does."""

        def is_settled(record) -> bool:
            self.cloud.control.advance(5.0)
            return record.is_settled

        found = await self.until(is_settled)
        assert self.outside.tpu.list_nodes() == self.outside.tpu.list_queued_resources() == ([], [])
        return found


@pytest.fixture
def story(cloud, tmp_path):
    found = Story(cloud, tmp_path)
    with closing(found.runtime):
        yield found
    cloud.control.clear_faults()


def lived(story: Story, requests: int) -> record_store.JobRecord:
    """The settled job: it has so many requests before any time passes in the cloud."""

    async def told():
        async with story.supervised():
            await story.asked(requests)
            return await story.settled()

    return asyncio.run(asyncio.wait_for(told(), 2 * DEADLINE_S))


def test_a_zone_without_capacity_keeps_nobody_waiting_and_costs_nothing(story):
    story.cloud.control.add_fault(f"capacity {HERE} v5litepod-1: 0")
    story.submit("v5litepod-1", at_once=2)
    record = lived(story, requests=2)
    (attempt,) = record.attempts
    (loser,) = attempt.others
    assert (record.state, attempt.zone, attempt.outcome) == ("SUCCEEDED", THERE, "succeeded")
    assert (loser.zone, loser.billed_s, loser.reason) == (HERE, 0.0, f"{THERE} was granted")
    assert {zone for zone, _ in story.nodes} == {THERE}
    noted = load_events(story.outside.store, time.time())
    assert [(event.kind, event.zone) for event in noted] == [("granted", THERE)]


def test_the_second_type_is_taken_where_the_first_is_out_everywhere(story):
    story.cloud.control.add_fault("capacity * v5litepod-1: 0")
    story.submit("v5litepod-1", "v6e-1", at_once=3)
    record = lived(story, requests=3)
    (attempt,) = record.attempts
    assert (record.state, record.accelerator_type) == ("SUCCEEDED", "v6e-1")
    assert {(each.zone, each.accelerator_type, each.billed_s) for each in attempt.others} == {
        (HERE, "v5litepod-1", 0.0),
        (THERE, "v5litepod-1", 0.0),
    }
    assert len(story.nodes) == 1


def test_of_two_that_are_active_at_once_one_runs_and_the_other_is_paid_until_it_is_gone(story):
    story.submit("v5litepod-1", at_once=2)
    record = lived(story, requests=2)
    (attempt,) = record.attempts
    (loser,) = attempt.others
    assert (record.state, {attempt.zone, loser.zone}) == ("SUCCEEDED", {HERE, THERE})
    assert len(story.nodes) == 2, "both were made"
    assert [line.text for line in log_stream.read(story.outside, story.job_id)] == ["up"]
    hours = spending.spending_of(record, time.time()).slice_hours
    ran_s = attempt.deleted_s - attempt.ready_s
    assert hours == pytest.approx((ran_s + loser.billed_s) / 3600.0)


def test_a_supervisor_that_is_killed_after_its_choice_leaves_the_others_to_the_next(story):
    story.cloud.control.add_fault("DeleteQueuedResource: UNAVAILABLE")
    story.submit("v5litepod-1", at_once=2)

    async def told():
        with closing(Machine(story.cloud.home, "local")):
            await story.asked(2)
            story.cloud.control.advance(600.0)
            await story.until(lambda record: record.attempts[0].chosen_s is not None)
        assert len(story.requests()) == 2
        story.cloud.control.clear_faults()
        async with story.supervised(TERMS):
            return await story.settled()

    record = asyncio.run(asyncio.wait_for(told(), 2 * DEADLINE_S))
    (attempt,) = record.attempts
    (loser,) = attempt.others
    assert (record.state, {attempt.zone, loser.zone}) == ("SUCCEEDED", {HERE, THERE})
    assert not loser.is_open
    assert [line.text for line in log_stream.read(story.outside, story.job_id)] == ["up"]
