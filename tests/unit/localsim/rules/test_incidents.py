"""What a cloud remembers of what has gone wrong in it."""

import pytest

from localsim.rules.scenario.scenario import Scenario
from unit.localsim.rules.cloud_rig import NODE, START_S, Rig


@pytest.fixture
def rig_of(tmp_path):
    rigs = []

    def build(**settings):
        rigs.append(Rig(tmp_path / "state.sqlite", Scenario.from_mapping(settings)))
        return rigs[-1]

    yield build
    for rig in rigs:
        rig.close()


def rows(rig):
    """Each incident with the seconds since the scenario began."""
    return [
        (each.kind, each.subject, each.at_s - START_S, each.notice_s)
        for each in rig.cloud.incidents()
    ]


def test_preemptions_by_hand_and_by_the_spot_lifetime_are_remembered(rig_of):
    rig = rig_of(spot_lifetime_s=90, preemption_notice_probability=0)
    rig.ready("a")
    rig.ready("b")
    rig.cloud.preempt(NODE, 5.0)
    rig.live(100)
    rig.restart()
    assert rows(rig) == [
        ("ready", "a", 1.0, 0.0),
        ("ready", "b", 2.0, 0.0),
        ("preemption", "a", 2.0, 5.0),
        ("preemption", "b", 92.0, 0.0),
    ]


def test_faults_that_begin_and_end_are_remembered_but_not_those_of_the_beginning(rig_of):
    rig = rig_of(faults=["GetNode: reset"])
    rig.cloud.add_fault("vpc: unreachable")
    rig.tick(3)
    rig.cloud.change_scenario({"faults": ["GetNode: reset", "zone us-west4-a: unreachable"]})
    rig.cloud.clear_faults()
    assert (rig.cloud.faults_at_start, rig.cloud.scenario_start_s) == (["GetNode: reset"], START_S)
    assert [(kind, text) for kind, text, _, _ in rows(rig)] == [
        ("fault-began", "vpc: unreachable"),
        ("fault-ended", "vpc: unreachable"),
        ("fault-began", "zone us-west4-a: unreachable"),
        ("fault-ended", "GetNode: reset"),
        ("fault-ended", "zone us-west4-a: unreachable"),
    ]


def test_what_a_timeline_does_is_remembered_and_a_reset_forgets_it(rig_of):
    entry = {"when": "at 10s", "do": ["preempt a with notice of 5s", "vpc: unreachable"]}
    rig = rig_of(timeline=[{**entry, "for": "5s"}])
    rig.ready("a")
    rig.live(20)
    assert rows(rig)[1:] == [
        ("preemption", "a", 10.0, 5.0),
        ("fault-began", "vpc: unreachable", 10.0, 0.0),
        ("fault-ended", "vpc: unreachable", 15.0, 0.0),
    ]
    rig.cloud.clear()
    assert rows(rig) == []
    rig.restart()
    assert rows(rig) == []
