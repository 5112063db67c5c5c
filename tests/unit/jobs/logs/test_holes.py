"""A follower that comes late: what the worker's disk has not any more comes from the bucket."""

import asyncio
from types import SimpleNamespace

import pytest

from tpuctl.errors import TransientError
from tpuctl.jobs.logs.log_lines import LineAssembler
from tpuctl.jobs.logs.log_stream import AttemptFollower
from tpuctl.models.job import Attempt, AttemptState
from tpuctl.models.job_log import ALL_LINES
from tpuctl.store import open_store

SOURCE = (1, 0)
ATTEMPT = Attempt(1, "z", "n", AttemptState.RUNNING, owned=False)


@pytest.fixture
def live(tmp_path):
    store = open_store(str(tmp_path / "bucket"))
    store.put_if_absent("tpuctl/jobs/j/logs/a1/w0/000000000000", b"1.000 a\n2.000 b\n")
    found = AttemptFollower(
        SimpleNamespace(store=store), ATTEMPT, "j", None, ALL_LINES, lambda *_: None, lambda _: None
    )
    found.logs[SOURCE] = LineAssembler(*SOURCE)
    return found


def drained(live) -> list[str]:
    return [line.text for line in asyncio.run(live._drained())]


def test_a_hole_is_filled_from_the_bucket_and_nothing_overtakes_it(live):
    live._take(SOURCE, 16, b"3.000 c\n")
    live._take(SOURCE, 24, b"4.000 d\n")
    assert live.queue == []
    assert drained(live) == ["a", "b", "c", "d"]


def test_what_the_bucket_has_not_either_is_marked(live):
    live._take(SOURCE, 100, b"3.000 c\n")
    assert drained(live) == ["a", "b", "... 84 bytes of the log are missing here ...", "c"]


def test_a_bucket_that_is_away_is_asked_again(live):
    store, live.backends.store = live.backends.store, SimpleNamespace(list=away)
    live._take(SOURCE, 16, b"3.000 c\n")
    assert drained(live) == []
    live.backends.store = store
    assert drained(live) == ["a", "b", "c"]


def away(_prefix):
    raise TransientError("no answer")
