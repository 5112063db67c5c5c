"""How often a job's slices are looked at, and a call to the API that never comes back."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from tpuctl.jobs.interfaces import Clocks
from tpuctl.jobs.slices import slice_api, slice_watcher
from tpuctl.jobs.slices.slice_api import SliceObservation
from tpuctl.jobs.slices.slice_watcher import FASTEST_S, SLOWEST_S, STEADY_S, SliceWatcher


@pytest.fixture
def made():
    now = [0.0]
    clocks = Clocks(lambda: now[0], lambda: now[0], asyncio.sleep)
    found = SliceWatcher(
        SimpleNamespace(tpu=None), clocks, lambda: None, lambda: False, lambda: None
    )
    return found, now


@pytest.mark.parametrize(
    ("still_s", "every_s"), [(0.0, FASTEST_S), (60.0, 3.0), (3600.0, SLOWEST_S)]
)
def test_what_does_not_move_is_looked_at_less_and_less(made, still_s, every_s):
    found, now = made
    found.look_now()
    now[0] += still_s
    assert found._every_s() == every_s
    found.look_now()
    assert found._every_s() == FASTEST_S


def test_while_all_is_well_the_workers_say_first_what_happens(made):
    found, _ = made
    found.is_steady = lambda: True
    assert found._every_s() == STEADY_S


def test_a_call_that_hangs_does_not_keep_the_job_from_the_next_look(made, monkeypatch):
    found, _ = made
    hung, looks = threading.Event(), []

    def look(*_):
        looks.append(1)
        if len(looks) == 1:
            hung.wait(30)
        return SliceObservation(0.0, requests={"q": "ACTIVE"})

    monkeypatch.setattr(slice_api, "observe_slices", look)
    monkeypatch.setattr(slice_watcher, "ANSWER_TIMEOUT_S", 0.05)

    async def story():
        await found._look()
        assert found.observation.trouble.startswith("the Cloud TPU API has not answered")
        monkeypatch.setattr(slice_watcher, "ANSWER_TIMEOUT_S", 20.0)
        await found._look()
        hung.set()

    asyncio.run(story())
    assert found.observation.requests == {"q": "ACTIVE"}
