"""The timeline of a scenario: what arms an entry, when it happens, and what it does."""

import pytest

from localsim.rules.model.nodes import NodeState
from localsim.rules.scenario.scenario import Scenario
from localsim.rules.scenario.timeline_types import EntryState, RequestVerb
from unit.localsim.rules.cloud_rig import NODE, START_S, ZONE, Rig

OTHER = f"{ZONE}/nodes/b"
SAVE = "in the middle of 2nd upload of b/runs/*"
ARMED, DONE, WAITING = EntryState.ARMED, EntryState.DONE, EntryState.WAITING


@pytest.fixture
def rig_of(tmp_path):
    rigs = []

    def build(*entries, **settings):
        scenario = Scenario.from_mapping({"timeline": list(entries), **settings})
        rigs.append(Rig(tmp_path / "state.sqlite", scenario))
        return rigs[-1]

    yield build
    for rig in rigs:
        rig.close()


def states(rig):
    return {each.entry.name: each.state for each in rig.cloud.timeline()}


def entry(rig, name="entry-1"):
    return next(each for each in rig.cloud.timeline() if each.entry.name == name)


def upload(rig, target="b/runs/1", caller="a/0", **options):
    """One upload; the entries whose moment is in it happen."""
    names = rig.cloud.see_request(RequestVerb.UPLOAD, target, caller, **options)
    for name in names:
        rig.cloud.let_entry_come(name, request=7)
    rig.live()
    return names


def test_a_time_counts_from_the_beginning(rig_of):
    rig = rig_of({"when": "at 30s", "do": "preempt a without notice"})
    rig.ready("a")
    rig.live(28)
    assert (states(rig), rig.state()) == ({"entry-1": ARMED}, NodeState.READY)
    rig.live(1)
    assert (states(rig), rig.state()) == ({"entry-1": DONE}, NodeState.PREEMPTED)
    assert entry(rig).fired_s == START_S + 30


def test_a_request_that_matches_is_counted(rig_of):
    rig = rig_of({"when": SAVE, "do": "preempt * without notice"})
    rig.ready("a")
    assert upload(rig) == []
    assert upload(rig, target="b/other/1") == []
    assert upload(rig, caller="") == []
    assert entry(rig).count == 1
    assert upload(rig) == ["entry-1"]
    assert rig.state() == NodeState.PREEMPTED
    assert (entry(rig).state, entry(rig).request) == (DONE, 7)
    assert upload(rig) == []


def test_another_sender_counts_only_where_the_entry_says_so(rig_of):
    rig = rig_of(
        {"name": "anybody", "when": "before 1st upload of b/* by *", "do": "nothing"},
        {"name": "second", "when": "before 1st upload of b/* by */1", "do": "nothing"},
    )
    assert upload(rig, caller="") == ["anybody"]
    assert upload(rig, caller="a/0") == []
    assert upload(rig, caller="a/1") == ["second"]


def test_the_end_of_a_request_is_counted_for_itself(rig_of):
    rig = rig_of({"when": "after 1st upload of b/*", "do": "nothing"})
    assert upload(rig) == []
    assert upload(rig, has_ended=True) == ["entry-1"]


def test_an_entry_whose_moment_is_in_a_request_counts_no_other(rig_of):
    rig = rig_of({"when": SAVE, "do": "nothing"})
    upload(rig)
    assert rig.cloud.see_request(RequestVerb.UPLOAD, "b/runs/2", "a/0") == ["entry-1"]
    held = rig.cloud.see_request(RequestVerb.UPLOAD, "b/runs/3", "a/0", skip=["entry-1"])
    assert (held, entry(rig).count) == ([], 1)


def test_what_follows_is_armed_when_the_first_is_done_and_counts_from_there(rig_of):
    again = {"name": "again", "when": "before 1st upload of b/*", "do": "nothing"}
    rig = rig_of(
        {"name": "kill", "when": "before 2nd upload of b/*", "do": "nothing", "then": [again]}
    )
    upload(rig)
    assert states(rig) == {"kill": ARMED, "again": WAITING}
    upload(rig)
    assert states(rig) == {"kill": DONE, "again": ARMED}
    upload(rig)
    assert states(rig) == {"kill": DONE, "again": DONE}


@pytest.mark.parametrize("when", ["10s later", "at 10s"])
def test_a_time_below_counts_from_the_entry_above(rig_of, when):
    later = {"name": "later", "when": when, "do": "nothing"}
    rig = rig_of({"name": "first", "when": "at 5s", "do": "nothing", "then": [later]})
    rig.live(14)
    assert states(rig) == {"first": DONE, "later": ARMED}
    rig.live(1)
    assert states(rig) == {"first": DONE, "later": DONE}


def test_ready_nodes_are_counted_together(rig_of):
    rig = rig_of({"when": "after 2nd READY of *", "do": "preempt b without notice"})
    rig.ready("a")
    assert states(rig) == {"entry-1": ARMED}
    rig.ready("b")
    rig.live()
    assert (rig.state(), rig.state(OTHER)) == (NodeState.READY, NodeState.PREEMPTED)


def test_a_time_after_ready(rig_of):
    rig = rig_of({"when": "20s after 1st READY of a", "do": "preempt a without notice"})
    rig.ready("a")
    rig.live(19)
    assert rig.state() == NodeState.READY
    rig.live(1)
    assert rig.state() == NodeState.PREEMPTED


def test_a_simulator_that_starts_again_makes_no_node_ready(rig_of):
    rig = rig_of({"when": "after 2nd READY of a", "do": "nothing"})
    rig.ready("a")
    rig.restart()
    rig.cloud.mark_slice_booted(NODE, rig.node().identities)
    assert entry(rig).count == 1


def test_a_fault_lasts_as_long_as_the_entry_says(rig_of):
    rig = rig_of({"when": "at 5s", "do": "zone us-west4-a: unreachable", "for": "10s"})
    rig.live(5)
    assert [each.text for each in rig.cloud.faults()] == ["zone us-west4-a: unreachable"]
    rig.live(10)
    assert rig.cloud.faults() == ()


def test_a_fault_ends_where_an_entry_ends_it(rig_of):
    rig = rig_of(
        {"when": "at 1s", "do": "end storage.*: return-503"},
        {"when": "at 2s", "do": "end storage.*: return-503"},
        faults=["storage.*: return-503"],
    )
    rig.live(2)
    assert rig.cloud.faults() == ()
    assert entry(rig, "entry-2").problem == "there is no fault storage.*: return-503"


def test_a_preemption_of_nobody_is_noted(rig_of):
    rig = rig_of({"when": "at 1s", "do": "preempt a"})
    rig.live(1)
    assert (entry(rig).state, entry(rig).problem) == (DONE, "no node a is READY")


def test_a_second_preemption_without_notice_cuts_the_first_short(rig_of):
    rig = rig_of(
        {"when": "at 2s", "do": "preempt a with notice of 30s"},
        {"when": "at 3s", "do": "preempt a without notice"},
    )
    rig.ready("a")
    rig.live(1)
    assert rig.state() == NodeState.READY
    rig.live(1)
    assert rig.state() == NodeState.PREEMPTED


def test_what_has_come_outlives_a_kill(rig_of):
    again = {"name": "again", "when": "10s later", "do": "nothing"}
    kill = {"name": "kill", "when": SAVE, "do": "preempt * without notice", "then": [again]}
    rig = rig_of(kill)
    rig.ready("a")
    upload(rig)
    rig.restart()
    assert (states(rig), entry(rig, "kill").count) == ({"kill": ARMED, "again": WAITING}, 1)
    assert upload(rig) == ["kill"]
    rig.restart()
    assert states(rig) == {"kill": DONE, "again": ARMED}
    rig.live(10)
    rig.restart()
    assert states(rig) == {"kill": DONE, "again": DONE}


def test_entries_can_be_added(rig_of):
    rig = rig_of({"when": "at 1s", "do": "nothing"})
    rig.live(5)
    rig.cloud.add_timeline([{"when": "at 3s", "do": "nothing"}, {"when": SAVE, "do": "nothing"}])
    rig.live()
    assert states(rig) == {"entry-1": DONE, "entry-2": DONE, "entry-3": ARMED}


def test_a_reset_begins_the_timeline_again(rig_of):
    rig = rig_of({"when": "at 5s", "do": "nothing"})
    rig.cloud.add_timeline([{"when": "at 100s", "do": "nothing"}])
    rig.live(5)
    rig.cloud.clear()
    rig.live(4)
    assert states(rig) == {"entry-1": ARMED}
    rig.live(1)
    assert states(rig) == {"entry-1": DONE}


def test_another_scenario_has_another_timeline(rig_of):
    rig = rig_of({"name": "old", "when": "at 5s", "do": "nothing"})
    rig.close()
    rig.scenario = Scenario.from_mapping(
        {"timeline": [{"name": "new", "when": "at 5s", "do": "nothing"}]}
    )
    rig.connection = None
    rig.restart()
    rig.live(5)
    assert states(rig) == {"new": DONE}
