"""The example of docs/checkpoint-lineage.md, played by real runs: each row of its table holds."""

import re
from pathlib import Path

import pytest

from tpuctl.checkpoint import Checkpointer
from tpuctl.checkpoint.format import layout
from tpuctl.errors import PreconditionError
from tpuctl.store import open_store
from unit.checkpoint.runs import states, tree

PAGE = (Path(__file__).parents[3] / "docs" / "checkpoint-lineage.md").read_text("utf-8")
ROW = re.compile(r"^\| (\d) \| .+ \| (.+) \| (\d+) \|$", re.MULTILINE)


class StoreThatPauses:
    """A directory; right before COMMIT of step 30 is put, something else happens."""

    def __init__(self, store, meanwhile):
        self._store = store
        self._meanwhile = meanwhile

    def __getattr__(self, name):
        return getattr(self._store, name)

    def put_if_generation(self, key, data, generation):
        if key == layout.commit_key(30):
            self._meanwhile()
        return self._store.put_if_generation(key, data, generation)


def save(run, *steps):
    for step in steps:
        run.save(step, tree(step), wait=True)
    run.close()


def seen(directory):
    """The steps and what a restore takes, as the page writes them."""
    latest = Checkpointer(directory, keep=2, fence=9).latest()
    return ", ".join(f"{step} {state}" for step, state in states(directory)), str(latest)


def play(directory):
    """What is seen after each moment of the example."""
    moments = []
    second = Checkpointer(directory, keep=2, fence=2)

    def run_2_begins():
        moments.append(seen(directory))
        assert second.restore().step == 20
        moments.append(seen(directory))

    paused = StoreThatPauses(open_store(str(directory)), run_2_begins)
    first = Checkpointer(paused, keep=2, fence=1)
    save(first, 10, 20)
    moments.append(seen(directory))
    save(first, 30)
    moments.append(seen(directory))
    with pytest.raises(PreconditionError, match="superseded"):
        save(first, 40)
    moments.append(seen(directory))
    save(second, 30)
    return [*moments, seen(directory)]


def test_the_example_happens_as_it_is_told(tmp_path):
    told = [(steps, latest) for _, steps, latest in ROW.findall(PAGE)]
    assert play(tmp_path) == told


def test_every_module_that_the_page_names_is_there():
    root = Path(__file__).parents[3]
    names = re.findall(r"`([a-z_]+/[a-z_]+\.py)`", PAGE)
    assert names
    assert [name for name in names if not (root / "tpuctl/checkpoint" / name).exists()] == []
