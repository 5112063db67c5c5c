"""A supervisor notes now and then which slices there are, and nothing that fails ends it."""

import asyncio

import pytest

from tpuctl.errors import TransientError
from tpuctl.jobs.interfaces import Backends, Clocks
from tpuctl.jobs.supervisor.cost_notes import NOTE_EVERY_S, note_costs
from tpuctl.ledger.slice_notes import read_ledger
from tpuctl.models.node import Node
from tpuctl.store import open_store

NODE = Node("n1", "us-west4-a", 7, "v5litepod-16", "r", "READY", "spot", 1.0)


class EndOfTestError(Exception):
    """Ends a loop that goes on for ever."""


def backends(store, look):
    return Backends("here", "z", "b", "http://b", store, None, None, "key", None, look=look)


def note(store, home, look, turns):
    """Let a supervisor take so many turns; returns for how long it has slept."""
    slept = []

    async def sleep(pause_s):
        if len(slept) == turns:
            raise EndOfTestError
        slept.append(pause_s)

    clocks = Clocks(lambda: 1000.0, lambda: 0.0, sleep)
    with pytest.raises(EndOfTestError):
        asyncio.run(note_costs(backends(store, look), home, clocks))
    return slept


def test_a_supervisor_notes_every_four_minutes_what_there_is(tmp_path):
    store, looks = open_store(str(tmp_path / "bucket")), []

    def look():
        looks.append(len(looks))
        if len(looks) == 1:
            raise TransientError("the API is away")
        return [NODE], [], []

    assert note(store, tmp_path / "home", look, turns=3) == [NOTE_EVERY_S] * 3
    assert len(looks) == 3
    (facts,) = read_ledger(store, tmp_path / "home").known.values()
    assert (facts.identity.name, {seen.state for seen in facts.sightings}) == ("n1", {"READY"})


def test_without_a_way_to_look_nothing_is_noted(tmp_path):
    store = open_store(str(tmp_path / "bucket"))
    asyncio.run(note_costs(backends(store, None), tmp_path, Clocks(None, None, None)))
    assert list(store.list()) == []
