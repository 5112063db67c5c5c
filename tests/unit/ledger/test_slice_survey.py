"""What a look at the API and its operations tell of slices, and what is noted of that."""

from tpuctl.ledger.slice_facts import collect_facts, life_of
from tpuctl.ledger.slice_notes import note_facts, note_survey, read_ledger
from tpuctl.ledger.slice_survey import SliceSurvey, new_facts
from tpuctl.models.money.slice_life import BillingEdge
from tpuctl.models.node import Node
from tpuctl.models.operation import Operation, Status
from tpuctl.store import open_store
from unit.money.histories import ZONE, at

NODES = f"projects/p/locations/{ZONE}/nodes"
REQUESTS = f"projects/p/locations/{ZONE}/queuedResources"


def node(node_id, *, name="n1", created=0.0, state="READY", request=None, **more):
    return Node(
        name, ZONE, node_id, "v5litepod-16", "r", state, "spot", at(created),
        queued_resource=request, **more,
    )  # fmt: skip


def operation(verb, target, asked, ended=None, *, error=None, of=None):
    return Operation(
        f"{verb} {target} {asked}", ended is not None, error, target, verb, at(asked),
        None if ended is None else at(ended), of,
    )  # fmt: skip


def lives(known, now=9.0):
    return {key: life_of(facts, at(now)) for key, facts in sorted(known.items())}


def hours(life):
    return [((i.begin.at_s - at(0)) / 3600, (i.end.at_s - at(0)) / 3600) for i in life.intervals]


def survey(now, *, nodes=(), operations=(), known=None, **more):
    """What is known after a look."""
    known = known or {}
    looked = SliceSurvey(at(now), nodes, operations, **more)
    return collect_facts(new_facts(looked, known), known)


def test_a_slice_that_came_and_went_unseen_is_told_by_operations_alone():
    gone = node(7)
    known = survey(
        9,
        operations=[
            operation("create", f"{NODES}/n1", 0, 1, of=gone),
            operation("stop", f"{NODES}/n1", 2, 2.1, of=gone),
            operation("start", f"{NODES}/n1", 3, 3.5, of=gone),
            operation("delete", f"{NODES}/n1", 5, 5.1),
        ],
    )
    (life,) = lives(known).values()
    assert hours(life) == [(1, 2), (3.5, 5)]
    edges = [edge for each in life.intervals for edge in (each.begin, each.end)]
    assert edges == [BillingEdge.exact(at(hour)) for hour in (1, 2, 3.5, 5)]


def test_a_deletion_is_about_the_slice_that_had_the_name_then():
    known = survey(
        9,
        nodes=[node(8, created=4)],
        operations=[
            operation("create", f"{NODES}/n1", 0, 1, of=node(7)),
            operation("delete", f"{NODES}/n1", 2, 2.1),
            operation("create", f"{NODES}/n1", 4, 5, of=node(8, created=4)),
        ],
    )
    first, second = lives(known).values()
    assert (hours(first), first.is_running) == ([(1, 2)], False)
    assert (hours(second), second.is_running) == ([(5, 9)], True)


def test_a_creation_that_failed_says_nothing_about_an_earlier_slice_of_the_name():
    stockout = Status(8, "no more capacity")
    operations = [
        operation("create", f"{NODES}/n1", 0, 1, of=node(7)),
        operation("delete", f"{NODES}/n1", 2, 2.1),
        operation("create", f"{NODES}/n1", 4, 5, error=stockout),
    ]
    assert hours(lives(survey(9, operations=operations))["7"]) == [(1, 2)]
    seen = survey(4.5, nodes=[node(8, created=4, state="CREATING")])
    later = survey(9, operations=operations, known=seen)
    assert lives(later)["8"].intervals == ()


def test_the_deletion_of_a_request_ends_all_its_nodes():
    nodes = [node(n, name=f"m-{n}", request="m") for n in (1, 2)]
    known = survey(1, nodes=nodes)
    known = survey(4, operations=[operation("delete", f"{REQUESTS}/m", 3, 3.2)], known=known)
    assert [hours(life)[0][1] for life in lives(known).values()] == [3, 3]


def test_a_slice_that_is_not_listed_any_more_is_gone_unless_its_zone_is_silent():
    known = survey(1, nodes=[node(7)])
    silent = survey(3, unreachable=[ZONE], known=known)
    assert lives(silent)["7"].is_running
    other = survey(3, zones=["us-east1-c"], known=known)
    assert lives(other)["7"].is_running
    assert not lives(survey(3, known=known))["7"].is_running


def test_what_is_known_already_is_not_told_again():
    known = survey(1, nodes=[node(7, labels={"team": "a"})])
    soon = SliceSurvey(at(1.01), [node(7, labels={"team": "a"})])
    assert new_facts(soon, known) == []
    later = SliceSurvey(at(2), [node(7, labels={"team": "b"})])
    assert [fact["what"] for fact in new_facts(later, known)] == ["seen", "labels"]


def test_flex_start_is_known_from_whoever_could_ask():
    known = survey(1, nodes=[node(7)])
    assert known["7"].identity.provisioning == "spot"
    facts = [
        {"slice": "8", "what": "is", "provisioning": each}
        for each in ("flex-start", "on-demand", "unknown")
    ]
    assert collect_facts(facts)["8"].identity.provisioning == "flex-start"
    assert collect_facts(facts[1:])["8"].identity.provisioning == "on-demand"


def test_observers_note_lines_in_one_ledger_and_count_once(tmp_path):
    store, homes = open_store(str(tmp_path / "b")), [tmp_path / "anna", tmp_path / "ben"]
    for hour in range(1, 5):
        for home in homes:
            look = lambda: ([node(7)], [], [])  # noqa: E731
            note_survey(store, home, look, lambda hour=hour: at(hour))
    deleted = [operation("delete", f"{NODES}/n1", 4.5, 4.6)]
    note_survey(store, homes[1], lambda: ([], [], deleted), lambda: at(5))
    ledger = read_ledger(store, homes[0])
    (life,) = lives(ledger.known).values()
    assert life.intervals[0].end == BillingEdge.exact(at(4.5))
    looks = [e for e in store.list() if "/slices/" in e.key]
    assert len(looks) == 2
    assert all(len(store.get_range(each.key).splitlines()) <= 6 for each in looks)


def test_days_that_are_over_are_read_once(tmp_path):
    store, home = open_store(str(tmp_path / "b")), tmp_path / "home"
    created = [
        operation("create", f"{NODES}/n1", 0, 1, of=node(7)),
        operation("delete", f"{NODES}/n1", 5, 5.1),
    ]
    note_facts(store, home, new_facts(SliceSurvey(at(6), (), created), {}), at(6))
    note_facts(store, home, new_facts(SliceSurvey(at(30), [node(8, created=29)]), {}), at(30))
    first, again = read_ledger(store, home), read_ledger(store, home)
    assert list(first.settled) == list(again.settled) == ["7"]
    assert (hours(again.settled["7"]), list(again.known)) == ([(1, 5)], ["8"])
    assert first == again
    # A late fact about a day that is over is read; so is a new one about a slice of that day.
    note_facts(store, home, [{"slice": "9", "what": "is", "name": "late"}], at(7))
    assert sorted(read_ledger(store, home).known) == ["8", "9"]
    labels = {"slice": "7", "what": "labels", "labels": {"a": "b"}, "at_s": at(31)}
    note_facts(store, home, [labels], at(31))
    assert lives(read_ledger(store, home).known)["7"].labels_at(at(2)) == {"a": "b"}
