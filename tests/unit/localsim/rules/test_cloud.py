"""The rules of the simulated cloud with a clock in the test's hand: no sleeping, no wire."""

from contextlib import closing
from dataclasses import asdict

import pytest

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.model.events import (
    BootSlice,
    DestroySlice,
    NoticePreemption,
    ShowMetadata,
    StopSlice,
)
from localsim.rules.model.nodes import NodeSpec, NodeState
from localsim.rules.model.queued_resources import (
    QueuedResourceSpec,
    RequestedNode,
    RequestState,
    Tier,
)
from localsim.rules.scenario.scenario import Scenario
from unit.localsim.rules.cloud_rig import NODE, REQUEST, SINGLE, SPOT, START_S, WORKER, ZONE, Rig

pytest_plugins = ("unit.localsim.rules.cloud_fixtures",)


def request(node_id="a", tier=Tier.SPOT):
    spec = NodeSpec("v5litepod-16", "v2-alpha-tpuv5-lite")
    return QueuedResourceSpec((RequestedNode(ZONE, node_id, spec),), tier)


def test_a_node_is_ready_only_after_its_workers_booted(rig):
    operation = rig.cloud.create_node(ZONE, "a", SPOT)
    assert rig.cloud.next_due_s() == START_S + 1
    assert rig.tick(0.9) == []
    (boot,) = rig.tick(0.1)
    assert isinstance(boot, BootSlice)
    assert rig.state() == NodeState.CREATING
    rig.cloud.mark_slice_booted(NODE, [WORKER] * 4)
    assert rig.state() == NodeState.READY
    ended = rig.cloud.get_operation(operation.name)
    assert (ended.is_done, ended.node.state, ended.end_time_s) == (True, "READY", START_S + 1)
    assert rig.cloud.next_due_s() is None


def test_a_late_tick_does_everything_as_of_its_due_time(rig):
    operation = rig.cloud.create_queued_resource(ZONE, "q", request())
    events = rig.tick(3600)
    assert [type(event) for event in events] == [BootSlice]
    assert rig.cloud.get_operation(operation.name).end_time_s == START_S
    assert rig.cloud.get_node(NODE).create_time_s == START_S + 0.3
    assert rig.request_state() == RequestState.PROVISIONING


def test_a_restart_in_the_middle_of_provisioning_goes_on_exactly(rig):
    operation = rig.cloud.create_node(ZONE, "a", SPOT)
    before = asdict(rig.cloud.get_node(NODE))
    rig.tick(0.6)
    rig.restart()
    assert asdict(rig.cloud.get_node(NODE)) == before
    assert rig.cloud.get_operation(operation.name) == operation
    assert rig.cloud.next_due_s() == START_S + 1
    (boot,) = rig.tick(0.4)
    rig.restart()  # the workers had been asked for and had not answered
    assert [event.node.name for event in rig.tick()] == [boot.node.name]
    rig.cloud.mark_slice_booted(NODE, [WORKER] * 4)
    rig.restart()
    assert rig.tick() == []
    assert rig.cloud.get_operation(operation.name).is_done
    assert [node.name for node in rig.cloud.running_nodes()] == [NODE]
    assert rig.cloud.guest_attributes(NODE)[3][0].value == WORKER.hostname


def test_a_restart_in_the_middle_of_a_queued_resource_goes_on_exactly(rig):
    rig.cloud.create_queued_resource(ZONE, "q", request())
    seen = []
    for _ in range(8):
        for event in rig.tick(0.2):
            rig.cloud.mark_slice_booted(event.node.name, [WORKER] * 4)
        rig.restart()
        seen.append(rig.request_state())
    assert seen == ["ACCEPTED", *["PROVISIONING"] * 5, "ACTIVE", "ACTIVE"]


def test_stop_and_start_wait_for_the_workers(rig):
    rig.ready(spec=SINGLE)
    stopping = rig.cloud.stop_node(NODE)
    assert [type(event) for event in rig.tick()] == [StopSlice]
    rig.restart()
    assert [type(event) for event in rig.tick()] == [StopSlice]
    rig.cloud.mark_slice_stopped(NODE)
    assert (rig.state(), rig.cloud.get_operation(stopping.name).is_done) == ("STOPPED", True)
    assert rig.cloud.running_nodes() == ()
    assert [node.name for node in rig.cloud.nodes_with_disks()] == [NODE]
    rig.cloud.start_node(NODE)
    rig.tick()
    rig.restart()
    assert [type(event) for event in rig.tick()] == [BootSlice]
    rig.cloud.mark_slice_booted(NODE, [WORKER])
    assert rig.state() == NodeState.READY


def test_deleting_a_node_that_is_being_created_ends_both_operations(rig):
    creating = rig.cloud.create_node(ZONE, "a", SPOT)
    deleting = rig.cloud.delete_node(NODE)
    assert [type(event) for event in rig.tick()] == [DestroySlice]
    rig.cloud.mark_slice_booted(NODE, [WORKER] * 4)  # the answer of a boot that was under way
    assert rig.state() == NodeState.DELETING
    rig.tick(0.2)
    assert rig.cloud.get_operation(creating.name).failure.code == Code.CANCELLED
    assert rig.cloud.get_operation(deleting.name).is_done
    assert rig.cloud.next_due_s() is None
    with pytest.raises(CloudError, match="not found"):
        rig.cloud.get_node(NODE)


def test_a_boot_that_fails_ends_a_new_node_and_is_no_news_of_any_other(rig):
    creating = rig.cloud.create_node(ZONE, "a", SPOT)
    rig.cloud.mark_slice_failed(NODE, "an answer about an older node of that name")
    assert rig.state() == NodeState.CREATING
    rig.tick(1)
    rig.cloud.mark_slice_failed(NODE, "no disk")
    failure = rig.cloud.get_operation(creating.name).failure
    assert (failure.code, failure.message) == (Code.INTERNAL, "no disk")
    assert [type(event) for event in rig.tick()] == [DestroySlice]
    rig.cloud.mark_slice_failed(NODE, "it is gone")
    assert rig.ready().state == NodeState.READY
    rig.cloud.mark_slice_failed(NODE, "it did not come back after a restart")
    assert rig.state() == NodeState.READY


def test_preemption_without_notice(rig):
    rig.ready()
    rig.cloud.preempt(NODE, 0)
    assert [type(event) for event in rig.tick()] == [DestroySlice]
    assert rig.state() == NodeState.PREEMPTED
    assert rig.cloud.nodes_with_disks() == ()
    with pytest.raises(CloudError, match="while in state PREEMPTED"):
        rig.cloud.preempt(NODE, 0)


def test_preemption_with_notice_survives_a_restart(rig):
    rig.ready()
    rig.cloud.preempt(NODE, 10)
    (notice,) = rig.tick()
    assert isinstance(notice, NoticePreemption)
    assert notice.notice_s == 10
    with pytest.raises(CloudError, match="already"):
        rig.cloud.preempt(NODE, 0)
    rig.tick(9)
    rig.restart()
    assert rig.state() == NodeState.READY
    rig.tick(1)
    assert rig.state() == NodeState.PREEMPTED


def notices(path, seed):
    """How long the notices of forty preemptions are; those without notice tell nothing."""
    drawn = []
    with closing(Rig(path, Scenario(seed=seed))) as rig:
        for number in range(40):
            rig.cloud.preempt(rig.ready(f"n{number}").name, None)
            events = rig.tick()
            drawn += [event.notice_s for event in events if isinstance(event, NoticePreemption)]
    return drawn


def test_the_same_seed_draws_the_same_notices_and_about_half_get_none(tmp_path):
    first, again = notices(tmp_path / "first", 1), notices(tmp_path / "again", 1)
    assert first == again != notices(tmp_path / "other", 2)
    assert 10 < len(first) < 30
    assert all(0 < notice_s <= 30 for notice_s in first)


def test_metadata_changes_reach_the_workers(rig):
    rig.ready()
    rig.cloud.update_node(NODE, {"metadata": {"ssh-keys": "u:k"}})
    (event,) = rig.tick(1)
    assert isinstance(event, ShowMetadata)
    assert event.node.metadata == {"ssh-keys": "u:k"}
    rig.cloud.update_node(NODE, {"description": "x"})
    assert rig.tick(1) == []


def test_addresses_are_unique_and_are_not_reused_at_once(rig):
    first = rig.ready("a").addresses
    second = rig.ready("b").addresses
    assert first == ("10.128.0.2", "10.128.0.3", "10.128.0.4", "10.128.0.5")
    assert not set(first) & set(second)
    rig.cloud.delete_node(NODE)
    rig.tick(1)
    rig.restart()
    assert not set(rig.ready("c").addresses) & {*first, *second}


def test_a_refused_change_leaves_nothing_behind(rig):
    rig.ready()
    before = asdict(rig.cloud.get_node(NODE))
    counts = rig.cloud.counts()
    for refused in (
        lambda: rig.cloud.create_node(ZONE, "a", SPOT),
        lambda: rig.cloud.stop_node(NODE),
        lambda: rig.cloud.start_node(NODE),
        lambda: rig.cloud.update_node(NODE, {"labels": {"Bad": "x"}}),
        lambda: rig.cloud.create_queued_resource(ZONE, "q", request()),
    ):
        with pytest.raises(CloudError):
            refused()
    assert asdict(rig.cloud.get_node(NODE)) == before
    assert rig.cloud.counts() == counts
    rig.restart()
    assert rig.cloud.counts() == counts


def test_a_change_that_cannot_be_written_is_taken_back(rig):
    rig.ready()
    rig.cloud.create_queued_resource(ZONE, "q", request("b"))
    state, counts = rig.cloud._state, rig.cloud.counts()
    due_s = rig.cloud.next_due_s()
    with pytest.raises(OSError, match="disk full"), state.change():
        state.nodes.remove(NODE)
        state.requests.remove(REQUEST)
        state.agenda.clear()
        state.agenda.add(0.0, "provision node", NODE)
        state.events.append(DestroySlice(rig.cloud.running_nodes()))
        raise OSError("disk full")
    assert (rig.state(), rig.cloud.counts(), rig.cloud.next_due_s()) == ("READY", counts, due_s)
    assert all(type(event) is not DestroySlice for event in rig.tick())


def test_deleting_the_node_of_a_request_that_is_provisioning_fails_it(rig):
    rig.cloud.create_queued_resource(ZONE, "q", request())
    rig.tick(0.5)
    rig.cloud.delete_node(NODE)
    rig.tick(1)
    found = rig.cloud.get_queued_resource(REQUEST)
    assert (found.state, found.failure.code) == (RequestState.FAILED, Code.CANCELLED)


@pytest.fixture
def scarce(tmp_path):
    """One slice in the zone."""
    scenario = Scenario(capacity={"us-west4-a": {"v5litepod-16": 1}})
    with closing(Rig(tmp_path / "scarce.sqlite", scenario)) as found:
        yield found


def test_waiting_requests_are_served_in_the_order_they_came(scarce):
    rig = scarce
    rig.ready("held")
    for name in ("z-first", "a-second"):
        rig.cloud.create_queued_resource(ZONE, name, request(f"{name}-node"))
        rig.tick(1)
    rig.cloud.delete_node(f"{ZONE}/nodes/held")
    rig.tick(1)
    states = {
        each.name.rpartition("/")[2]: each.state
        for each in rig.cloud.list_queued_resources(ZONE).items
    }
    assert states == {"z-first": "PROVISIONING", "a-second": "WAITING_FOR_RESOURCES"}


def test_clearing_leaves_nothing_and_destroys_the_workers(rig):
    rig.ready()
    rig.cloud.create_queued_resource(ZONE, "q", request("b"))
    rig.cloud.clear()
    assert [type(event) for event in rig.tick()] == [DestroySlice]
    assert rig.cloud.counts() == {"nodes": 0, "queued_resources": 0, "operations": 0}
    rig.restart()
    assert (rig.cloud.next_due_s(), rig.tick()) == (None, [])


def test_the_project_is_known_by_its_number_too(rig):
    rig.ready()
    assert rig.cloud.get_node(NODE.replace("demo", "7")).name == NODE
