"""A worker dies at the same part of the same upload every time."""

import os
from pathlib import Path

import clouds
import pytest
from system.timelines.test_workers_timeline import KILL, create_worker, objects, run

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
REPETITIONS = int(os.environ.get("SOAK_REPETITIONS", "20"))
PHASES = {
    "before": ["run/0"],
    "at the first byte of": ["run/0"],
    "in the middle of": ["run/0"],
    "after": ["run/0", "run/1"],
}
"""Phase -> the objects that are there when a worker has died at it, of its second upload."""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory, namespaces):
    yield from clouds.serve(tmp_path_factory.mktemp("home"), "--log-requests", "--offline")


@pytest.mark.parametrize("phase", PHASES)
def test_every_repetition_ends_at_the_same_request(cloud: clouds.Cloud, tmp_path: Path, phase: str):
    outcomes = [_outcome(cloud, tmp_path, phase) for _ in range(REPETITIONS)]
    assert outcomes == [(["saved 0"], PHASES[phase], ("run/1", "n1/0", 0))] * REPETITIONS


def _outcome(cloud: clouds.Cloud, directory: Path, phase: str):
    """What the program wrote, the objects that are left, and the request that was met."""
    cloud.control.reset()
    create_worker(cloud, directory)
    when = f"{phase} 2nd upload of local-bucket/run/*"
    cloud.control.add_timeline([{"name": "kill", "when": when, "do": KILL}])
    lines = run(cloud, "xml")
    (entry,) = cloud.control.timeline(after=0, wait_s=60)
    (met,) = cloud.control.requests(after=entry["request"] - 1)[:1]
    return lines, objects(cloud), (met.object, met.caller, met.status)
