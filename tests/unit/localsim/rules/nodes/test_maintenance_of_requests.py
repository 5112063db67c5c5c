"""Maintenance of nodes that a queued resource owns: on request, and what it does to the owner."""

import pytest

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.model.nodes import NodeSpec
from localsim.rules.model.queued_resources import (
    MultisliceParams,
    QueuedResourceSpec,
    RequestedNode,
)
from localsim.rules.nodes.maintenance import MaintenanceAnnouncement
from unit.localsim.rules.cloud_rig import REQUEST, WORKER, ZONE

pytest_plugins = ("unit.localsim.rules.cloud_fixtures",)

SLICES = [f"{ZONE}/nodes/q-{index}" for index in range(3)]
SOON = MaintenanceAnnouncement(starts_in_s=1000)


def multislice(rig):
    """An ACTIVE request of three slices."""
    spec = NodeSpec("v5litepod-4", "v2-alpha-tpuv5-lite")
    wanted = RequestedNode(ZONE, "", spec, MultisliceParams(node_count=3))
    rig.cloud.create_queued_resource(ZONE, "q", QueuedResourceSpec((wanted,)))
    rig.live(5)
    assert rig.request_state() == "ACTIVE"
    return rig


def states(rig):
    return [rig.state(name) for name in SLICES]


def test_the_other_slices_restart_when_one_is_back(rig):
    multislice(rig)
    rig.cloud.simulate_maintenance_event(SLICES[1])
    assert states(rig) == ["READY", "REPAIRING", "READY"]
    events = rig.tick(2)
    assert states(rig) == ["RESTARTING", "REPAIRING", "RESTARTING"]
    booting = [event.node.name for event in events if type(event).__name__ == "BootSlice"]
    assert sorted(booting) == SLICES
    rig.restart()  # and all three are asked for once more
    rig.live()
    assert states(rig) == ["READY"] * 3
    assert rig.request_state() == "ACTIVE"


def test_nodes_of_single_requests_have_no_sisters(rig):
    rig.ready("alone")
    rig.cloud.simulate_maintenance_event(f"{ZONE}/nodes/alone")
    rig.live(2)
    assert rig.state(f"{ZONE}/nodes/alone") == "READY"


def test_performing_it_for_a_request_ends_when_all_its_nodes_are_back(rig):
    multislice(rig)
    for name in SLICES[:2]:
        rig.cloud.announce_maintenance(name, SOON)
    operation = rig.cloud.perform_maintenance_queued_resource(REQUEST)
    assert (operation.target, operation.verb) == (REQUEST, "performMaintenance")
    assert states(rig) == ["REPAIRING", "REPAIRING", "READY"]
    with pytest.raises(CloudError, match="is being changed by") as refusal:
        rig.cloud.perform_maintenance_queued_resource(REQUEST)
    assert refusal.value.code == Code.ABORTED
    rig.tick(2)
    rig.restart()
    rig.cloud.mark_slice_booted(SLICES[0], [WORKER])
    assert rig.outcome(operation) is None
    rig.live()
    assert states(rig) == ["READY"] * 3
    ended = rig.cloud.get_operation(operation.name)
    assert ended.queued_resource.state == "ACTIVE"
    assert rig.cloud.get_queued_resource(REQUEST).operation == ""


def test_nodes_are_named_in_full_or_by_id(rig):
    multislice(rig)
    for name in SLICES:
        rig.cloud.announce_maintenance(name, SOON)
    rig.cloud.perform_maintenance_queued_resource(REQUEST, ["q-2", SLICES[0], "q-0"])
    assert states(rig) == ["REPAIRING", "READY", "REPAIRING"]


def test_what_cannot_be_performed_begins_nothing(rig):
    multislice(rig)
    with pytest.raises(CloudError, match="No maintenance of a node"):
        rig.cloud.perform_maintenance_queued_resource(REQUEST)
    rig.cloud.announce_maintenance(SLICES[0], SOON)
    for names, code, cause in (
        (["q-0", "q-1"], Code.FAILED_PRECONDITION, "No maintenance of .*q-1"),
        (["q-0", "other"], Code.INVALID_ARGUMENT, "no node 'other'"),
    ):
        with pytest.raises(CloudError, match=cause) as refusal:
            rig.cloud.perform_maintenance_queued_resource(REQUEST, names)
        assert refusal.value.code == code
    assert states(rig) == ["READY"] * 3
    rig.cloud.delete_queued_resource(REQUEST, force=True)
    with pytest.raises(CloudError, match="is not supported while in state DELETING"):
        rig.cloud.perform_maintenance_queued_resource(REQUEST)


def test_a_failed_repair_suspends_the_owner_of_a_single_node(rigged):
    rig = rigged(repair_failure_probability=1.0)
    wanted = RequestedNode(ZONE, "a", NodeSpec("v5litepod-4", "v2-alpha-tpuv5-lite"))
    rig.cloud.create_queued_resource(ZONE, "q", QueuedResourceSpec((wanted,)))
    rig.live(5)
    rig.cloud.announce_maintenance(f"{ZONE}/nodes/a", SOON)
    operation = rig.cloud.perform_maintenance_queued_resource(REQUEST)
    rig.live(2)
    assert (rig.state(), rig.outcome(operation)) == ("UNKNOWN", "INTERNAL")
    rig.live(1)
    request = rig.cloud.get_queued_resource(REQUEST)
    assert (request.state, request.initiator) == ("SUSPENDED", "SERVICE")


def test_deleting_the_node_ends_the_maintenance_of_its_request(rig):
    wanted = RequestedNode(ZONE, "a", NodeSpec("v5litepod-4", "v2-alpha-tpuv5-lite"))
    rig.cloud.create_queued_resource(ZONE, "q", QueuedResourceSpec((wanted,)))
    rig.live(5)
    rig.cloud.announce_maintenance(f"{ZONE}/nodes/a", SOON)
    operation = rig.cloud.perform_maintenance_queued_resource(REQUEST)
    rig.cloud.delete_node(f"{ZONE}/nodes/a")
    assert rig.outcome(operation) == "ABORTED"
    rig.live(5)
    rig.cloud.reset_queued_resource(REQUEST)  # nothing holds it any more


def test_the_end_of_a_run_ends_the_maintenance_of_its_request(rig):
    wanted = RequestedNode(ZONE, "a", NodeSpec("v5litepod-4", "v2-alpha-tpuv5-lite"))
    run = {"provisioning_model": "FLEX_START", "max_run_duration_s": 60.0}
    rig.cloud.create_queued_resource(ZONE, "q", QueuedResourceSpec((wanted,), **run))
    rig.live(5)
    rig.cloud.change_scenario({"repair_delay_s": 3600})
    rig.cloud.announce_maintenance(f"{ZONE}/nodes/a", SOON)
    operation = rig.cloud.perform_maintenance_queued_resource(REQUEST)
    rig.live(100)
    assert (rig.request_state(), rig.outcome(operation)) == ("SUSPENDED", "ABORTED")


def test_deleting_the_request_ends_its_maintenance(rig):
    multislice(rig)
    rig.cloud.announce_maintenance(SLICES[0], SOON)
    operation = rig.cloud.perform_maintenance_queued_resource(REQUEST)
    rig.cloud.delete_queued_resource(REQUEST, force=True)
    assert rig.outcome(operation) == "CANCELLED"
    rig.live(5)
    assert rig.cloud.counts()["nodes"] == 0
    assert rig.cloud.next_due_s() is None
