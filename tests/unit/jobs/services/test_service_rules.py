"""The rules of services, one by one: replicas, drains, rollouts, scale, failures, ends."""

from dataclasses import replace

import pytest

from tpuctl.jobs.services import replica_states, rollout
from tpuctl.jobs.services.reconcile_service import reconcile_service
from tpuctl.models.inference.serve_spec import ReplicaRange
from tpuctl.models.inference.service_record import ReplicaState, ServiceState
from tpuctl.models.job import AttemptOutcome, AttemptState, JobState, Phase, WorkerReport
from unit.jobs.services.service_world import DRAIN_S, START_S, Proxy, World, spec_of

READY, DRAINING = ReplicaState.READY, ReplicaState.DRAINING


def running_world(count: int = 1, **limits) -> World:
    """A service whose replicas are all READY."""
    world = World(ReplicaRange(min=count, max=limits.pop("max", count), **limits))
    world.steps(5)
    assert (world.record.state, world.ready_count) == (ServiceState.READY, count)
    return world


def test_a_replica_waits_loads_and_is_ready():
    world = World()
    states = []
    for _ in range(4):
        world.step()
        states.append(str(world.record.replicas[0].state))
    assert states == ["WAITING", "LOADING", "READY", "READY"]
    assert world.record.replicas[0].address.node == world.record.replicas[0].job_id
    assert world.record.state == ServiceState.READY


@pytest.mark.parametrize("notice", ["preempted", "terminated"])
def test_at_a_notice_a_replica_gets_no_requests_and_another_one_begins(notice):
    world = running_world(1)
    world.proxies = [Proxy({"1": 1}, routed=(1,))]
    world.notify(1, notice)
    world.step()
    assert [str(each.state) for each in world.record.replicas] == ["DRAINING", "WAITING"]
    assert world.cancelled == []
    world.proxies[0].in_flight = {}
    world.write_reports()
    world.step()
    assert world.cancelled == [1]
    world.steps(5)
    assert [str(each.state) for each in world.record.replicas] == ["ENDED", "READY"]


def test_an_engine_that_ends_at_the_notice_is_replaced_as_soon():
    world = running_world(1)
    world.is_slow = True
    ended = WorkerReport(0, Phase.ENDED, preempted=True, notice="preempted")
    world.change_attempt(1, state=AttemptState.ENDED, outcome=AttemptOutcome.PREEMPTED,
                         workers=(ended,))  # fmt: skip
    world.change(1, state=JobState.RECOVERING)
    world.step()
    assert [str(each.state) for each in world.record.replicas] == ["DRAINING", "WAITING"]
    assert world.cancelled == [1]


def test_after_a_loss_without_notice_its_job_finds_another_slice():
    world = running_world(1)
    world.lose(1)
    world.is_slow = True
    world.step()
    assert (world.record.replicas[0].state, world.record.replicas[0].address) == ("WAITING", None)
    assert world.record.state == ServiceState.DEGRADED
    world.is_slow = False
    world.steps(4)
    assert [each.number for each in world.replicas(READY)] == [1]
    assert world.record.replicas[0].attempt == 2


def test_a_drain_waits_for_every_proxy_that_lives():
    world = running_world(1)
    world.proxies = [Proxy(routed=(1,)), Proxy({"1": 2}, routed=(1,))]
    world.delete()
    world.steps(2)
    world.proxies[0] = Proxy(routed=(), seen_s=world.now_s)
    world.steps(2)
    assert world.cancelled == []
    world.proxies[1] = Proxy({"1": 1}, routed=(), seen_s=world.now_s)
    world.steps(2)
    assert world.cancelled == []
    world.proxies[1].in_flight = {"1": 0}
    world.step()
    assert world.cancelled == [1]


def test_a_report_from_before_the_drain_says_nothing_of_it():
    world = running_world(1)
    world.proxies = [Proxy(seen_s=world.now_s)]
    world.delete()
    world.steps(3)
    assert world.cancelled == []
    world.write_reports()
    world.step()
    assert world.cancelled == [1]


def test_a_drain_ends_after_its_time():
    world = running_world(1)
    world.proxies = [Proxy({"1": 1}, routed=(1,))]
    world.delete()
    world.steps(int(DRAIN_S))
    assert world.cancelled == []
    world.steps(2)
    assert world.cancelled == [1]


def test_the_drain_of_a_replica_whose_slice_is_gone_is_over():
    world = running_world(1)
    world.proxies = [Proxy({"1": 1}, routed=(1,))]
    world.notify(1)
    world.step()
    world.is_slow = True
    world.lose(1)
    world.step()
    assert world.cancelled == [1]


def test_what_is_no_more_ready_gets_no_requests_and_is_replaced_after_a_while():
    world = running_world(1)
    job_id = world.record.replicas[0].job_id
    world.ready[job_id] = False
    world.steps(int(replica_states.UNREADY_S))
    assert world.ready_count == 1
    world.steps(2)
    assert world.replicas()[0].state == ReplicaState.LOADING
    world.ready[job_id] = True
    world.step()
    assert world.ready_count == 1
    world.ready[job_id] = False
    world.steps(int(replica_states.DEAD_S) + 2)
    assert world.replicas()[0].state == ReplicaState.FAILED
    assert world.cancelled == [1]
    world.steps(20)
    assert [each.number for each in world.replicas(READY)] == [2]


def test_an_engine_that_is_never_ready_has_failed():
    world = World()
    world.stuck = {1}
    world.steps(int(START_S) + 4)
    assert "did not answer 200 within 300 s" in world.texts()
    assert world.cancelled[:1] == [1]


def test_an_update_replaces_one_replica_at_a_time():
    world = running_world(3)
    world.update(spec_of(world.limits, "serve 2"))
    world.step()
    seen = [1]
    while world.record.state != ServiceState.READY or world.replicas(DRAINING):
        world.step()
        assert len(world.running) <= 4
        assert world.ready_count >= 3
        seen.append(len([each for each in world.running if each.revision == 2]))
    assert sorted(set(seen)) == [1, 2, 3]
    assert {each.revision for each in world.replicas(READY)} == {2}


def test_a_revision_whose_first_replica_fails_is_given_up():
    world = running_world(2)
    world.broken = {2}
    world.update(spec_of(world.limits, "exit 1"))
    world.steps(10)
    assert {each.revision for each in world.replicas(READY)} == {1}
    assert world.ready_count == 2
    assert "ended with status 1" in world.record.revisions[-1].failure
    assert "revision 2 was given up" in world.record.why
    assert world.record.next_number == 4
    world.update(spec_of(world.limits, "serve 3"))
    world.steps(30)
    assert {each.revision for each in world.replicas(READY)} == {3}


def test_the_first_revision_is_tried_again_with_pauses_and_then_no_more():
    world = World()
    world.broken = {1}
    world.steps(2000)
    failed = world.replicas(ReplicaState.FAILED)
    assert len(failed) == rollout.MOST_FAILURES
    pauses = [b.created_s - a.ended_s for a, b in zip(failed, failed[1:], strict=False)]
    assert pauses == [10.0, 20.0, 40.0, 80.0]
    assert world.record.state == ServiceState.DEGRADED
    assert "5 replicas in a row failed" in world.record.why
    world.broken = set()
    world.update(spec_of(world.limits, "serve 2"))
    world.steps(6)
    assert world.record.state == ServiceState.READY


def test_a_broken_first_revision_makes_room_for_the_next():
    world = World(ReplicaRange(min=2, max=2))
    world.stuck = {1, 2}
    world.steps(5)
    world.update(spec_of(world.limits, "serve 2"))
    world.steps(10)
    assert [each.revision for each in world.replicas(READY)] == [2, 2]


def test_a_replica_whose_job_was_cancelled_is_replaced():
    world = running_world(1)
    world.change(1, cancel_requested_s=world.now_s)
    world.steps(6)
    assert [each.number for each in world.replicas(READY)] == [2]
    assert world.record.failures == 0


def test_requests_in_flight_add_replicas_at_once_and_their_absence_takes_them_later():
    world = running_world(1, max=4, in_flight=2.0, idle_s=60.0)
    world.proxies = [Proxy({"1": 3}, queued=1, routed=(1,)), Proxy({"1": 1})]
    world.step()
    assert world.record.wanted_replicas == 3
    world.steps(5)
    assert world.ready_count == 3
    world.proxies = [Proxy({"1": 4}, routed=(1, 2, 3))]
    world.steps(30)
    world.proxies = [Proxy(routed=(1, 2, 3))]
    world.steps(20)
    assert world.record.wanted_replicas == 3
    for _ in range(70):
        world.write_reports()
        world.step()
    assert world.record.wanted_replicas == 2
    assert [each.number for each in world.running] == [1, 2]


def test_a_service_goes_to_zero_and_comes_back():
    world = World(ReplicaRange(min=0, max=2, in_flight=4.0, idle_s=30.0))
    world.steps(5)
    assert world.record.state == ServiceState.READY
    world.steps(40)
    assert (world.record.state, world.running) == (ServiceState.IDLE, [])
    world.proxies = [Proxy(queued=5)]
    world.step()
    assert world.record.wanted_replicas == 2
    world.steps(5)
    assert world.ready_count == 2


def test_a_service_that_may_have_none_is_seen_to_work_first():
    world = World(ReplicaRange(min=0, max=2, idle_s=30.0))
    world.stuck = {1}
    world.steps(100)
    assert world.record.wanted_replicas == 1
    world.ready[world.record.replicas[0].job_id] = True
    world.steps(25)
    assert world.ready_count == 1
    world.steps(20)
    assert world.record.state == ServiceState.IDLE


def test_a_negative_count_of_a_proxy_hides_no_other_request():
    world = running_world(1, max=3, in_flight=1.0)
    world.proxies = [Proxy({"1": -5}, queued=-3), Proxy({"1": 2})]
    world.step()
    assert world.record.wanted_replicas == 2


def test_so_many_replicas_are_on_demand():
    world = World(ReplicaRange(min=3, max=3, on_demand=1))
    world.steps(5)
    assert [each.on_demand for each in world.replicas(READY)] == [True, False, False]
    world.fail(1)
    world.steps(40)
    assert [(each.number, each.on_demand) for each in world.replicas(READY)] == [
        (2, False), (3, False), (4, True)
    ]  # fmt: skip


def test_the_on_demand_replica_goes_last():
    world = World(ReplicaRange(min=1, max=3, on_demand=1, in_flight=1.0, idle_s=10.0))
    world.proxies = [Proxy({"1": 3})]
    world.steps(8)
    assert world.ready_count == 3
    world.proxies = []
    world.steps(30)
    assert [(each.number, each.on_demand) for each in world.running] == [(1, True)]


def test_other_limits_replace_no_engine():
    world = running_world(2)
    world.update(spec_of(ReplicaRange(3, 5)))
    world.steps(6)
    assert [each.revision for each in world.replicas(READY)] == [1, 1, 2]
    assert world.record.state == ServiceState.READY
    world.update(spec_of(ReplicaRange(3, 5), "another"))
    world.steps(60)
    assert {each.revision for each in world.replicas(READY)} == {3}
    assert world.record.revisions[-1].same_engine_as is None


def test_the_limits_of_a_revision_that_was_given_up_are_tried_as_a_new_one():
    world = running_world(1)
    world.broken = {2, 3}
    world.update(spec_of(world.limits, "exit 1"))
    world.steps(10)
    world.update(spec_of(ReplicaRange(1, 2), "exit 1"))
    world.steps(10)
    assert [bool(each.failure) for each in world.record.revisions] == [False, True, True]


@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 0), (2, 1), (0, 2)])
def test_another_on_demand_floor_changes_one_replica_after_the_other(before, after):
    world = running_world(2, on_demand=before)
    world.update(spec_of(ReplicaRange(2, 2, on_demand=after)))
    for _ in range(40):
        world.step()
        assert world.ready_count >= 2
        assert len(world.running) <= 3
    assert sum(each.on_demand for each in world.replicas(READY)) == after
    number = world.record.next_number
    world.steps(40)
    assert world.record.next_number == number


def test_where_all_are_on_demand_none_is_called_so():
    world = World(spec=spec_of(ReplicaRange(2, 2, on_demand=1), spot=False), limits=ReplicaRange(2))
    world.steps(5)
    assert [each.on_demand for each in world.replicas(READY)] == [False, False]


def test_a_deletion_waits_for_every_slice():
    world = running_world(2)
    world.delete()
    world.step()
    assert world.record.state == ServiceState.DELETING
    world.steps(4)
    assert (world.record.state, world.record.ended_s is not None) == (ServiceState.DELETED, True)
    assert {job.state for job in world.jobs.values()} == {JobState.CANCELLED}


def test_a_replica_that_was_never_submitted_may_still_appear():
    world = World()
    world.step()
    del world.jobs[world.record.replicas[0].job_id]
    world.delete()
    world.steps(int(replica_states.UNSEEN_S) - 5)
    assert world.record.state == ServiceState.DELETING
    world.steps(20)
    assert world.record.state == ServiceState.DELETED


def test_a_job_that_cannot_be_submitted_is_a_failure():
    world = World()
    world.step()
    world.jobs.clear()
    seen = replace(world.observed(), refusals={1: "v5litepod-4 is not offered in us-west4-a"})
    step = reconcile_service(world.record, seen)
    assert step.record.replicas[0].state == ReplicaState.FAILED
    assert "not offered" in step.record.replicas[0].why


def test_what_nobody_can_tell_changes_nothing():
    world = running_world(2)
    seen = replace(world.observed(), jobs={}, slices={})
    step = reconcile_service(world.record, seen)
    assert (step.record, step.actions) == (world.record, ())


def test_replicas_that_are_long_gone_are_forgotten():
    world = running_world(1)
    for _ in range(20):
        world.notify(world.replicas(READY)[0].number)
        world.steps(6)
    assert len(world.record.replicas) <= 12
    assert len(world.record.events) <= 100
