"""Changes that are taken back leave nothing behind: not in memory, its indexes, or on disk."""

from dataclasses import dataclass

import pytest

from localsim.rules.db.agenda import Action, Agenda
from localsim.rules.db.collection import RETENTION_S, Collection
from localsim.rules.db.database import open_database
from localsim.rules.db.journal import DurableCounters, Journal, NotWrittenError
from localsim.rules.model.cloud_errors import CloudError, Code
from unit.localsim.rules.cloud_rig import NODE, SINGLE, ZONE

pytest_plugins = ("unit.localsim.rules.cloud_fixtures",)

A, B = f"{ZONE}/nodes/a", f"{ZONE}/nodes/b"


@dataclass(frozen=True)
class Thing:
    name: str
    owner: str = ""
    size: int = 1


class Stored:
    """A collection, an agenda and counters on one journal, opened as often as wanted."""

    def __init__(self, path):
        self.connection = open_database(path)
        self.journal = Journal(self.connection)
        self.things = Collection(self.journal, "things", Thing)
        self.by_owner = self.things.index(lambda thing: (thing.owner,))
        self.sizes = self.things.tally(lambda thing: {thing.owner: thing.size})
        self.agenda = Agenda(self.journal)
        self.counters = DurableCounters(self.journal)

    def known(self):
        """All that anybody can see."""
        return (
            list(self.things),
            {owner: self.by_owner[owner] for owner in ("", "x", "y")},
            {owner: self.sizes[owner] for owner in ("", "x", "y")},
            self.agenda.next_due_s(),
            self.agenda.has(Action.REMOVE_NODE, A),
        )


@pytest.fixture
def stored(tmp_path):
    opened = []

    def again():
        opened.append(Stored(tmp_path / "state.sqlite"))
        return opened[-1]

    yield again
    for each in opened:
        each.connection.close()


def test_what_was_changed_is_found_and_summed_after_a_restart_too(stored):
    first = stored()
    with first.journal.change():
        first.things.put(Thing(A, "x", 2))
        first.things.put(Thing(B, "x", 3))
        first.things.put(Thing(B, "y", 4))
        first.agenda.add(5.0, Action.REMOVE_NODE, A)
    assert first.by_owner["x"] == [Thing(A, "x", 2)]
    assert (first.sizes["x"], first.sizes["y"], "z" in first.by_owner) == (2, 4, False)
    assert stored().known() == first.known()


def test_a_change_that_fails_leaves_everything_as_it_was(stored):
    first = stored()
    with first.journal.change():
        first.things.put(Thing(A, "x", 2))
        first.agenda.add(5.0, Action.REMOVE_NODE, A)
    before = first.known()
    with pytest.raises(ZeroDivisionError), first.journal.change():
        first.things.put(Thing(A, "y"))
        first.things.remove(A)
        first.things.put(Thing(B))
        first.agenda.cancel(A)
        first.agenda.add(1.0, Action.REMOVE_NODE, B)
        assert first.counters.add("n", 3) == 0
        raise ZeroDivisionError
    with first.journal.change():
        assert first.counters.add("n", 1) == 0
    assert first.known() == before == stored().known()


def test_an_inner_change_that_fails_takes_back_itself_alone(stored):
    first = stored()
    with first.journal.change():
        first.things.put(Thing(A, "x"))
        with pytest.raises(ZeroDivisionError), first.journal.change():
            first.things.put(Thing(A, "y"))
            first.things.put(Thing(B, "y"))
            raise ZeroDivisionError
    assert list(first.things) == [Thing(A, "x")] == list(stored().things)


def test_a_change_that_the_disk_refuses_has_not_happened(stored):
    first = stored()
    first.connection.execute("PRAGMA query_only = 1")
    with pytest.raises(NotWrittenError) as refused, first.journal.change():
        first.things.put(Thing(A))
    assert refused.value.code is Code.UNAVAILABLE and not refused.value.may_pass
    assert list(first.things) == []


def test_nothing_changes_outside_of_a_change(stored):
    with pytest.raises(RuntimeError, match="outside of a change"):
        stored().things.put(Thing(A))


def test_operations_are_forgotten_some_time_after_their_end(rig):
    operation = rig.cloud.create_node(ZONE, "a", SINGLE)
    rig.live(1)
    rig.tick(RETENTION_S - 1)
    assert rig.cloud.get_operation(operation.name).is_done
    rig.restart()
    rig.tick(1)
    with pytest.raises(CloudError, match="was not found"):
        rig.cloud.get_operation(operation.name)
    assert rig.node(NODE).state == "READY"
    rig.restart()
    assert rig.cloud.counts()["operations"] == 0


def test_an_operation_that_runs_is_not_forgotten(rigged):
    rig = rigged(provisioning_delay_s=2 * RETENTION_S)
    operation = rig.cloud.create_node(ZONE, "a", SINGLE)
    rig.tick(1.5 * RETENTION_S)
    assert not rig.cloud.get_operation(operation.name).is_done
