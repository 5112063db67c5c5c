"""What befalls workers that are up, and what the node tells of it."""

import pytest

from localsim.rules.model.events import ApplyWorkerFaults, BootSlice, DestroySlice
from unit.localsim.rules.cloud_rig import NODE, REQUEST, SINGLE, SPOT, ZONE
from unit.localsim.rules.requests.requests_asked import asked, file

pytest_plugins = ("unit.localsim.rules.cloud_fixtures",)

DOWN = "Worker 2 is down: its machine has failed."


def suffers(rig, name=NODE):
    troubles = rig.cloud.faults_by_worker(rig.node(name))
    return {worker: [each.trouble.value for each in found] for worker, found in troubles.items()}


def afflicted(rig, seconds=0.0):
    """The nodes whose workers are told of a change."""
    return [each.node.node_id for each in rig.tick(seconds) if isinstance(each, ApplyWorkerFaults)]


def told(rig, name=NODE):
    node = rig.node(name)
    return node.health.value, node.health_description, [each.worker_id for each in node.symptoms]


def test_faults_reach_the_workers_they_name_and_leave_them_when_they_are_cleared(rig):
    rig.ready("a")
    rig.ready("b", SINGLE)
    rig.cloud.add_fault("worker */0: slow 10x")
    assert afflicted(rig) == ["a", "b"]
    rig.cloud.add_fault("worker a/2: hangs")
    rig.cloud.add_fault("worker a/2: cut off")
    rig.cloud.add_fault("worker a/4: hangs")  # there is no such worker
    assert afflicted(rig) == ["a", "a"]
    assert suffers(rig) == {0: ["slow"], 2: ["hangs", "cut off"]}
    assert [each.met for each in rig.cloud.faults()] == [2, 1, 1, 0]
    rig.restart()
    assert suffers(rig) == {0: ["slow"], 2: ["hangs", "cut off"]}
    rig.cloud.clear_faults()
    assert (afflicted(rig), suffers(rig)) == (["a", "b"], {})


def test_workers_that_boot_later_suffer_too(rig):
    rig.cloud.add_fault("worker a/1: disk full")
    rig.cloud.add_fault("worker a/3: killed")
    rig.cloud.create_node(ZONE, "a", SPOT)
    events = rig.live(1)
    assert [type(each) for each in events] == [BootSlice, ApplyWorkerFaults]
    assert suffers(rig) == {1: ["disk full"], 3: ["killed"]}
    rig.cloud.simulate_maintenance_event(NODE)
    rig.live(5)
    assert suffers(rig) == {1: ["disk full"]}
    assert [each.met for each in rig.cloud.faults()] == [2, 1]


def test_a_killed_worker_stays_dead_until_it_is_repaired(rig):
    rig.ready()
    rig.cloud.add_fault("worker a/2: killed")
    rig.cloud.clear_faults()
    rig.restart()
    assert suffers(rig) == {2: ["killed"]}
    rig.cloud.simulate_maintenance_event(NODE, ["2"])
    rig.live(5)
    assert (rig.state(), suffers(rig), told(rig)) == ("READY", {}, ("HEALTHY", "", []))


def test_a_killed_worker_stays_dead_until_it_is_started_again_under_the_same_fault(rig):
    rig.ready(spec=SINGLE)
    rig.cloud.add_fault("worker a/0: killed")
    rig.cloud.stop_node(NODE)
    rig.tick()
    rig.cloud.mark_slice_stopped(NODE)
    rig.cloud.add_fault("worker a/0: killed")  # which has no power anyway
    rig.cloud.start_node(NODE)
    rig.live()
    assert suffers(rig) == {}
    rig.cloud.add_fault("worker a/0: killed")
    assert suffers(rig) == {0: ["killed"]}


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        ("killed", "MESH_BUILD_FAIL", DOWN),
        ("cut off", "EXECUTE_TIMED_OUT", "Worker 2 cannot be reached over the network."),
        ("hangs", "EXECUTE_TIMED_OUT", "Worker 2 is up but does not respond."),
    ],
)
def test_the_service_notices_after_a_while(rigged, text, kind, sentence):
    rig = rigged(detection_delay_s=30)
    rig.ready()
    rig.cloud.add_fault(f"worker a/2: {text}")
    rig.tick(29)
    assert told(rig) == ("HEALTHY", "", [])
    rig.tick(1)
    assert told(rig) == ("TIMEOUT", sentence, ["2"])
    (symptom,) = rig.node().symptoms
    assert (symptom.symptom_type, symptom.details) == (kind, sentence)
    assert symptom.create_time_s == rig.clock.now()


@pytest.mark.parametrize("text", ["disk full", "slow 10x", "refuses ssh"])
def test_of_some_troubles_the_api_has_nothing_to_say(rig, text):
    rig.ready()
    rig.cloud.add_fault(f"worker a/2: {text}")
    rig.tick(1000)
    assert told(rig) == ("HEALTHY", "", [])


def test_a_worker_that_answers_again_is_noticed_as_well_and_its_symptom_stays(rig):
    rig.ready()
    rig.cloud.add_fault("worker a/1: hangs")
    rig.cloud.add_fault("worker a/1: cut off")
    rig.cloud.add_fault("worker a/2: killed")
    rig.tick(60)
    both = f"Worker 1 cannot be reached over the network. {DOWN}"
    assert told(rig) == ("TIMEOUT", both, ["1", "2"])
    rig.restart()
    rig.cloud.mark_slice_booted(NODE, rig.node().identities)  # the workers came back with the cloud
    assert told(rig) == ("TIMEOUT", both, ["1", "2"])
    rig.cloud.clear_faults()
    rig.tick(60)
    assert told(rig) == ("TIMEOUT", DOWN, ["1", "2"])


def test_of_trouble_that_is_over_sooner_nobody_hears(rig):
    rig.ready()
    rig.cloud.add_fault("worker a/1: hangs")
    rig.tick(30)
    rig.cloud.clear_faults()
    rig.tick(100)
    assert told(rig) == ("HEALTHY", "", [])


def test_a_change_of_the_scenario_brings_faults_and_takes_them_away(rig):
    rig.ready()
    rig.cloud.change_scenario({"faults": ["worker a/0: hangs", "worker a/1: killed"]})
    assert suffers(rig) == {0: ["hangs"], 1: ["killed"]}
    rig.cloud.change_scenario({"faults": ["worker a/0: hangs"]})
    assert suffers(rig) == {0: ["hangs"], 1: ["killed"]}
    rig.cloud.change_scenario({"faults": []})
    assert suffers(rig) == {1: ["killed"]}


def test_the_workers_of_a_preempted_node_vanish_one_after_the_other(rigged):
    rig = rigged(preemption_spread_s=8)
    rig.ready()
    rig.cloud.preempt(NODE, 0)
    events = rig.tick()
    assert [type(each) for each in events] == [ApplyWorkerFaults]
    assert (rig.state(), len(suffers(rig))) == ("PREEMPTED", 1)
    assert rig.cloud.nodes_with_disks() == (rig.node(),)
    later = [type(each) for each in rig.tick(8)]
    assert later == [ApplyWorkerFaults, ApplyWorkerFaults, DestroySlice]
    assert rig.cloud.nodes_with_disks() == ()


def test_deleting_a_preempted_node_takes_the_rest_of_its_workers_at_once(rigged):
    rig = rigged(preemption_spread_s=8)
    rig.ready()
    rig.cloud.preempt(NODE, 0)
    rig.tick()
    rig.cloud.delete_node(NODE)
    assert [type(each) for each in rig.tick(8)] == [DestroySlice]


def test_slices_of_a_request_keep_their_places_when_one_is_made_anew(rig):
    file(rig, spec=asked(slices=3))
    rig.live(2)
    names = [f"{ZONE}/nodes/q-{index}" for index in range(3)]

    def places():
        return [rig.cloud.slice_position(rig.node(name)) for name in names]

    first = rig.node(names[0]).addresses[0]
    assert [each.slice_id for each in places()] == [0, 1, 2]
    assert {(p.request, p.num_slices, p.coordinator) for p in places()} == {(REQUEST, 3, first)}
    rig.cloud.preempt(names[0], 0)
    rig.live(5)
    moved = rig.node(names[0]).addresses[0]
    assert ([each.slice_id for each in places()], moved == first) == ([0, 1, 2], False)
    assert {each.coordinator for each in places()} == {moved}


def test_a_node_of_its_own_has_no_place(rig):
    assert rig.cloud.slice_position(rig.ready()) is None
