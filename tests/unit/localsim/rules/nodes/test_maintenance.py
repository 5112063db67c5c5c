"""Maintenance: announced, performed, simulated, failed; and how the owner and its slices fare."""

import pytest

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.model.events import BootSlice, NoticeMaintenance, StopSlice
from localsim.rules.model.nodes import NodeSpec, Scheduling
from localsim.rules.nodes.maintenance import MaintenanceAnnouncement
from unit.localsim.rules.cloud_rig import NODE, SINGLE, SPOT, START_S, WORKER, ZONE

pytest_plugins = ("unit.localsim.rules.cloud_fixtures",)

SOON = MaintenanceAnnouncement(starts_in_s=10, window_s=100)


def names(events):
    return [type(event).__name__ for event in events]


def test_maintenance_is_announced_begins_in_its_window_and_ends(rig):
    rig.ready()
    rig.cloud.announce_maintenance(NODE, SOON)
    now_s = rig.clock.now()
    (notice,) = rig.tick()
    planned = notice.node.maintenance
    assert (planned.type, planned.status, planned.can_reschedule) == ("SCHEDULED", "PENDING", True)
    assert (planned.window_start_s, planned.window_end_s) == (now_s + 10, now_s + 110)
    assert planned.latest_window_start_s >= planned.window_start_s
    assert (rig.state(), rig.node().health) == ("READY", "HEALTHY")
    rig.restart()
    assert names(rig.tick(10)) == ["NoticeMaintenance", "StopSlice"]
    node = rig.node()
    assert (node.state, node.health) == ("REPAIRING", "UNHEALTHY_MAINTENANCE")
    assert (node.maintenance.status, node.maintenance.can_reschedule) == ("ONGOING", False)
    assert node.health_description
    rig.cloud.mark_slice_stopped(NODE)  # the workers are down, and the node stays what it is
    assert rig.state() == "REPAIRING"
    assert names(rig.live(2)) == ["BootSlice", "NoticeMaintenance"]
    node = rig.node()
    assert (node.state, node.health, node.health_description) == ("READY", "HEALTHY", "")
    assert node.maintenance is None
    assert rig.cloud.next_due_s() is None


def test_programs_get_time_to_save_only_with_autocheckpoint(rig):
    saving = NodeSpec("v5litepod-4", "v2-alpha-tpuv5-lite", autocheckpoint_enabled=True)
    rig.ready("a", SINGLE)
    rig.ready("b", saving)
    for node_id in ("a", "b"):
        rig.cloud.simulate_maintenance_event(f"{ZONE}/nodes/{node_id}")
    notices = [event for event in rig.tick() if isinstance(event, NoticeMaintenance)]
    assert [event.save_until_s for event in notices] == [None, rig.clock.now() + 300]


def test_announced_maintenance_can_be_performed_early(rig):
    rig.ready()
    rig.cloud.announce_maintenance(NODE, SOON)
    operation = rig.cloud.perform_maintenance(NODE)
    assert operation.verb == "performMaintenance"
    assert rig.state() == "REPAIRING"
    with pytest.raises(CloudError, match="is ONGOING already"):
        rig.cloud.perform_maintenance(NODE)
    rig.live(2)
    assert rig.outcome(operation) == ""
    assert rig.cloud.get_operation(operation.name).node.state == "READY"
    rig.live(20)  # the window that had been announced
    assert rig.state() == "READY"


def test_maintenance_that_cannot_be_moved_cannot_be_performed(rig):
    rig.ready()
    with pytest.raises(CloudError, match="No maintenance") as refusal:
        rig.cloud.perform_maintenance(NODE)
    assert refusal.value.code == Code.FAILED_PRECONDITION
    rig.cloud.announce_maintenance(NODE, MaintenanceAnnouncement(10, can_reschedule=False))
    with pytest.raises(CloudError, match="cannot be rescheduled") as refusal:
        rig.cloud.perform_maintenance(NODE)
    assert refusal.value.code == Code.FAILED_PRECONDITION
    assert rig.state() == "READY"


def test_a_simulated_event_takes_one_worker_the_first_by_default(rig):
    rig.ready()
    with pytest.raises(CloudError, match="has no worker '4'") as refusal:
        rig.cloud.simulate_maintenance_event(NODE, ["4", "0"])
    assert refusal.value.code == Code.INVALID_ARGUMENT
    operation = rig.cloud.simulate_maintenance_event(NODE, ["3", "nobody looks at this"])
    assert rig.node().maintenance.type == "UNSCHEDULED"
    assert rig.outcome(operation) is None
    rig.live(2)
    assert rig.outcome(operation) == ""
    assert rig.outcome(rig.cloud.simulate_maintenance_event(NODE)) is None


def test_maintenance_needs_running_workers(rig):
    rig.ready(spec=SINGLE)
    rig.cloud.announce_maintenance(NODE, SOON)
    rig.cloud.stop_node(NODE)
    rig.cloud.mark_slice_stopped(NODE)
    for refused in (
        lambda: rig.cloud.simulate_maintenance_event(NODE),
        lambda: rig.cloud.announce_maintenance(NODE, SOON),
        lambda: rig.cloud.perform_maintenance(NODE),
    ):
        with pytest.raises(CloudError, match="is not supported while in state STOPPED") as refusal:
            refused()
        assert refusal.value.code == Code.FAILED_PRECONDITION
    rig.tick(10)
    assert (rig.state(), rig.node().maintenance) == ("STOPPED", None)


def test_a_restart_in_the_middle_of_a_repair_goes_on_exactly(rig):
    rig.ready()
    operation = rig.cloud.simulate_maintenance_event(NODE)
    rig.tick(1)
    rig.restart()
    assert rig.tick(0.9) == []
    rig.cloud.mark_slice_booted(NODE, [WORKER] * 4)  # an answer about a boot before the repair
    assert rig.state() == "REPAIRING"
    (boot,) = rig.tick(0.1)
    assert isinstance(boot, BootSlice)
    rig.restart()  # the workers had been asked for and had not answered
    assert names(rig.live()) == ["BootSlice", "NoticeMaintenance"]
    assert (rig.state(), rig.outcome(operation)) == ("READY", "")


def test_a_failed_repair_leaves_a_node_that_can_only_be_deleted(rigged):
    rig = rigged(repair_failure_probability=1.0)
    rig.ready()
    operation = rig.cloud.simulate_maintenance_event(NODE)
    rig.live(2)
    node = rig.node()
    assert (node.state, node.health, rig.outcome(operation)) == ("UNKNOWN", "TIMEOUT", "INTERNAL")
    assert [symptom.symptom_type for symptom in node.symptoms] == ["MESH_BUILD_FAIL"]
    rig.restart()
    assert rig.tick() == []
    rig.cloud.delete_node(NODE)
    rig.tick(1)
    assert rig.cloud.counts()["nodes"] == 0


def test_workers_that_do_not_come_back_are_a_failed_repair_too(rig):
    rig.ready()
    rig.cloud.simulate_maintenance_event(NODE)
    rig.tick(1)
    rig.cloud.mark_slice_failed(NODE, "an answer about a boot before the repair")
    assert rig.state() == "REPAIRING"
    rig.tick(1)
    rig.cloud.mark_slice_failed(NODE, "no disk")
    assert (rig.state(), rig.node().health_description) == ("UNKNOWN", "no disk")


def test_a_node_that_is_preempted_under_maintenance_fails_the_operation(rig):
    rig.ready()
    operation = rig.cloud.simulate_maintenance_event(NODE)
    rig.cloud.preempt(NODE, 0)
    rig.live(2)
    assert (rig.state(), rig.outcome(operation)) == ("PREEMPTED", "ABORTED")
    assert rig.cloud.next_due_s() is None


def test_preemptible_nodes_end_after_a_day_and_spot_nodes_do_not(rig):
    preemptible = NodeSpec(
        "v5litepod-4", "v2-alpha-tpuv5-lite", scheduling=Scheduling(preemptible=True)
    )
    rig.ready("a", preemptible)
    rig.ready("b", SPOT)
    rig.tick(24 * 3600 - 2)
    assert rig.state() == "READY"
    rig.tick(1)
    assert (rig.state(), rig.state(f"{ZONE}/nodes/b")) == ("TERMINATED", "READY")
    assert [node.name for node in rig.cloud.nodes_with_disks()] == [f"{ZONE}/nodes/b"]
    rig.cloud.delete_node(NODE)
    rig.tick(1)
    assert rig.cloud.counts()["nodes"] == 1


def test_the_events_of_a_maintenance_reach_the_workers_in_order(rig):
    rig.ready(spec=SINGLE)
    rig.cloud.simulate_maintenance_event(NODE)
    notice, stop = rig.tick()
    assert (type(notice), type(stop)) == (NoticeMaintenance, StopSlice)
    assert notice.node.maintenance.window_start_s == START_S + 1
