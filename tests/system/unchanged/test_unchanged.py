"""Programs of docs/unchanged.md that the tests have installed, run on a worker as they are."""

from collections.abc import Iterator

import pytest
from clouds import ISOLATIONS, MATRIX, Cloud, Runner, isolation_of, serve

from system.unchanged.unchanged_page import PROGRAMS, programs

pytestmark = MATRIX


@pytest.fixture(scope="module", params=ISOLATIONS)
def worker(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[Cloud]:
    """A simulator whose node `n1` has one worker, with the programs in its home."""
    options = ("--isolation", isolation_of(request), "--manual-clock", "--offline")
    for cloud in serve(tmp_path_factory.mktemp("unchanged"), *options):
        tpuctl = Runner(cloud.home, sleep=cloud.control.advance)
        assert tpuctl("node", "create", "n1", "-t", "v5litepod-4").code == 0
        files = [str(path) for folder in PROGRAMS for path in folder.glob("*.py")]
        assert tpuctl("node", "cp", *files, "n1:").code == 0
        yield cloud


@pytest.mark.parametrize(
    ("name", "shows"),
    [
        ("orbax", "process 0 of 1: kept [2, 3], restored 3"),
        ("tensorstore", "17 objects, shape (512, 1024), equal"),
        ("gcsfs", "2 files found, moved and read; 0 left"),
    ],
)
def test_it_runs_on_a_worker_as_it_is(worker: Cloud, name: str, shows: str):
    done = Runner(worker.home)("node", "exec", "n1", "--", *programs()[name].run.split())
    assert (done.code, done.out.splitlines()[-1]) == (0, shows), done.err
