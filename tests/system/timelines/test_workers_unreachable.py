"""Nobody outside of the VPC reaches the workers while its fault stands; they run on."""

from pathlib import Path

import clouds
import pytest

PROGRAM = """\
from google.cloud import storage

for number in range(3):
    storage.Client().bucket("local-bucket").blob(f"run/{number}").upload_from_string(b"x")
"""
FAULT = "vpc: unreachable"


@pytest.fixture(params=clouds.ISOLATIONS)
def here(request: pytest.FixtureRequest, tmp_path: Path):
    """A cloud with one worker, n1/0, that has the program."""
    options = ("--offline", "--isolation", clouds.isolation_of(request))
    for cloud in clouds.serve(tmp_path / "home", *options):
        tpuctl = clouds.Runner(cloud.home)
        (tmp_path / "program.py").write_text(PROGRAM)
        assert tpuctl("node", "create", "n1", "-t", "v5litepod-8").code == 0
        assert tpuctl("node", "cp", str(tmp_path / "program.py"), "n1:program.py").code == 0
        yield cloud


def test_open_connections_are_cut_new_ones_refused_and_the_worker_saves_on(here: clouds.Cloud):
    saved = {"name": "saved", "when": "after 3rd upload of local-bucket/run/*", "do": "nothing"}
    cut = {"when": "before 1st upload of local-bucket/run/*", "do": FAULT, "then": [saved]}
    here.control.add_timeline([cut])
    tpuctl = clouds.Runner(here.home, sleep=lambda _: None)
    command = "setsid python3 program.py >/dev/null 2>&1 & sleep 900"
    assert tpuctl("node", "exec", "n1", "--", "sh", "-c", command).code == 40
    assert here.control.timeline(after=1, wait_s=30)[-1]["state"] == "done"
    refused = tpuctl("node", "exec", "n1", "--", "true")
    assert refused.code == 40
    assert "network unreachable" in refused.err
    (fault,) = here.control.faults()
    assert (fault["fault"], fault["kind"]) == (FAULT, "vpc")
    assert fault["met"] >= 2
    here.control.clear_faults()
    assert tpuctl("node", "exec", "n1", "--", "true").code == 0
