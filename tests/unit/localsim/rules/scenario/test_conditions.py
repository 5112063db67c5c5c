"""What a scenario has in store, what is changed in it at run time, and what survives a restart."""

import pytest

from localsim.rules.model.events import NoticePreemption
from localsim.rules.model.nodes import NodeState
from localsim.rules.model.queued_resources import Tier
from localsim.rules.scenario.scenario import Scenario, ScenarioError
from unit.localsim.rules.cloud_rig import NODE, SINGLE, SPOT, START_S, ZONE, Rig
from unit.localsim.rules.requests.requests_asked import asked, file, state, states

pytest_plugins = ("unit.localsim.rules.cloud_fixtures",)

ONE = {"us-west4-a": {"v5litepod-16": 1}}


def test_a_change_is_in_force_at_once_and_after_a_restart(rig):
    rig.cloud.change_scenario({"capacity": ONE, "provisioning_delay_s": 5})
    rig.restart()
    assert rig.cloud.scenario.provisioning_delay_s == 5
    file(rig, "a")
    file(rig, "b")
    rig.live(2)
    assert (state(rig, "a"), state(rig, "b")) == ("PROVISIONING", "WAITING_FOR_RESOURCES")
    rig.cloud.change_scenario({"capacity": None})
    rig.live(6)
    assert (state(rig, "a"), state(rig, "b")) == ("ACTIVE", "ACTIVE")


def test_a_change_that_is_refused_changes_nothing(rig):
    with pytest.raises(ScenarioError, match="unknown key 'sede'; nearest: seed"):
        rig.cloud.change_scenario({"workers": "none", "sede": 1})
    assert rig.cloud.scenario == Scenario()


def test_steps_in_time_can_come_at_run_time(rig):
    rig.tick(100)
    steps = [{"at_s": 0, "slices": 0}, {"at_s": 200, "slices": 1}]
    rig.cloud.change_scenario({"capacity": {"*": {"*": steps}}})
    file(rig, "q")
    rig.live(50)
    assert state(rig) == "WAITING_FOR_RESOURCES"
    rig.restart()
    rig.live(60)
    assert state(rig) == "ACTIVE"


def test_another_scenario_begins_anew(tmp_path):
    path = tmp_path / "state.sqlite"
    rig = Rig(path, Scenario(faults=["GetNode: INTERNAL"]))
    rig.cloud.change_scenario({"seed": 9})
    rig.cloud.add_fault("ListNodes: INTERNAL")
    rig.tick(100)
    rig.scenario = Scenario(capacity={"*": {"*": [{"at_s": 50, "slices": 1}]}})
    rig.restart()
    assert (rig.cloud.scenario, rig.cloud.faults()) == (rig.scenario, ())
    file(rig)
    rig.live(49)
    assert state(rig) == "WAITING_FOR_RESOURCES"
    rig.live(10)
    assert state(rig) == "ACTIVE"
    rig.close()


def test_clearing_begins_the_scenario_again(rigged):
    rig = rigged(capacity={"*": {"*": [{"at_s": 50, "slices": 1}]}})
    rig.live(100)
    rig.cloud.change_scenario({"seed": 3})
    rig.cloud.clear()
    assert rig.cloud.scenario.seed == 0
    file(rig)
    rig.live(49)
    assert state(rig) == "WAITING_FOR_RESOURCES"
    rig.live(10)
    assert state(rig) == "ACTIVE"


def test_spot_nodes_live_as_long_as_the_scenario_says(rigged):
    rig = rigged(spot_lifetime_s=100, preemption_notice_probability=1.0)
    rig.ready("spot", SPOT)
    rig.ready("single", SINGLE)
    file(rig, "q", asked("owned", tier=Tier.SPOT))
    rig.live(2)
    assert (state(rig), set(states(rig).values())) == ("ACTIVE", {"READY"})
    rig.restart()
    notices = [event for event in rig.live(100) if isinstance(event, NoticePreemption)]
    assert {notice.node.node_id for notice in notices} == {"spot", "owned"}
    rig.live(31)
    assert states(rig) == {"single": "READY", "spot": "PREEMPTED", "owned": "PREEMPTED"}
    assert state(rig) == "SUSPENDED"


def test_a_node_that_is_taken_away_by_hand_is_not_taken_away_again(rigged):
    rig = rigged(spot_lifetime_s=100, preemption_notice_probability=0.0)
    rig.ready()
    rig.cloud.preempt(NODE, 0)
    rig.live(200)
    assert rig.state() == NodeState.PREEMPTED


def test_lifetimes_are_drawn(rigged):
    rig = rigged(spot_lifetime_s={"uniform": [10, 1000]}, preemption_notice_probability=0.0)
    for index in range(20):
        rig.ready(f"n{index:02}")
    left = []
    for _ in range(10):
        rig.live(100)
        left.append(list(states(rig).values()).count("READY"))
    assert left == sorted(left, reverse=True)
    assert len(set(left)) > 4
    assert left[-1] < 3


def test_maintenance_is_announced_as_planned(rigged):
    plan = {"nodes": "train-*", "after_s": 60, "notice_s": 600, "type": "UNSCHEDULED"}
    rig = rigged(maintenance=[plan, {"nodes": "*", "after_s": 10}])
    rig.ready("train-1", SINGLE)
    rig.ready("other", SINGLE)
    rig.live(59)
    other = rig.node(f"{ZONE}/nodes/other").maintenance
    assert (other.type, other.window_start_s) == ("SCHEDULED", START_S + 12 + 7 * 86400)
    rig.restart()
    rig.live(1)
    found = rig.node(f"{ZONE}/nodes/train-1").maintenance
    assert (found.type, found.status) == ("UNSCHEDULED", "PENDING")
    assert found.window_start_s == START_S + 1 + 60 + 600
