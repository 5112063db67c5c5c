"""Random histories of nodes: whatever is asked in whatever order, it all comes to an end."""

from contextlib import closing
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.model.nodes import Scheduling
from localsim.rules.nodes.maintenance import MaintenanceAnnouncement
from localsim.rules.scenario.scenario import Scenario
from unit.localsim.rules.cloud_rig import SINGLE, SPOT, WORKER, ZONE, Rig

SPECS = (SINGLE, SPOT, replace(SINGLE, scheduling=Scheduling(preemptible=True)))
SETTLED = {"READY", "STOPPED", "PREEMPTED", "TERMINATED", "UNKNOWN"}
ACTIONS = {
    "create": lambda cloud, name, n: cloud.create_node(ZONE, name[-1], SPECS[n % 3]),
    "delete": lambda cloud, name, _: cloud.delete_node(name),
    "stop": lambda cloud, name, _: cloud.stop_node(name),
    "start": lambda cloud, name, _: cloud.start_node(name),
    "update": lambda cloud, name, n: cloud.update_node(name, {"labels": {"n": str(n)}}),
    "announce": lambda cloud, name, n: cloud.announce_maintenance(name, MaintenanceAnnouncement(n)),
    "perform": lambda cloud, name, _: cloud.perform_maintenance(name),
    "simulate": lambda cloud, name, _: cloud.simulate_maintenance_event(name),
    "preempt": lambda cloud, name, n: cloud.preempt(name, n),
    "cancel": lambda cloud, _, n: cloud.cancel_operation(operations(cloud)[n].name),
    "boot": lambda cloud, name, _: cloud.mark_slice_booted(name, [WORKER] * 4),
    "fail": lambda cloud, name, _: cloud.mark_slice_failed(name, "no disk"),
    "stopped": lambda cloud, name, _: cloud.mark_slice_stopped(name),
}
STEPS = st.tuples(
    st.sampled_from(["wait", "restart", *ACTIONS]), st.sampled_from("abc"), st.integers(0, 5)
)


def operations(cloud):
    return cloud.list_operations(ZONE).items


def take(rig, action, node_id, number):
    if action == "wait":
        rig.live(number)
    elif action == "restart":
        rig.restart()
    else:
        try:
            ACTIONS[action](rig.cloud, f"{ZONE}/nodes/{node_id}", number)
        except CloudError as error:
            assert error.code not in (Code.INTERNAL, Code.UNKNOWN)
        except IndexError:
            assert action == "cancel"


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=25), st.sampled_from([0.0, 0.5]))
def test_every_history_comes_to_an_end(tmp_path_factory, steps, failing):
    path = tmp_path_factory.mktemp("history") / "state.sqlite"
    with closing(Rig(path, Scenario(repair_failure_probability=failing))) as rig:
        for number, node_id in enumerate("abc"):
            take(rig, "create", node_id, number)
        take(rig, "wait", "a", 1)
        for step in steps:
            take(rig, *step)
        rig.restart()  # what waits for its workers is asked for again
        for _ in range(3):
            for event in rig.live(24 * 3600):
                if type(event).__name__ == "StopSlice":
                    rig.cloud.mark_slice_stopped(event.node.name)
        assert {node.state for node in rig.cloud.list_nodes(ZONE).items} <= SETTLED
        assert [each for each in operations(rig.cloud) if not each.is_done] == []
        assert rig.cloud.next_due_s() is None
