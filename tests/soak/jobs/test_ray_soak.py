"""Jobs in real Ray clusters: `RAY_PYTHON=ray/bin/python pytest -m soak -k ray tests/soak/jobs`.

RAY_PYTHON is a Python that has Ray, if the one that runs the tests has none.
"""

import io
import json
import tarfile
from pathlib import Path

import pytest
from system.stories.gang_cloud import QUICK, gangs, is_running, ray_python

from tpuctl.jobs.logs import job_bundle

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("namespaces"),
    pytest.mark.skipif(ray_python() is None, reason="Ray is not installed: set RAY_PYTHON"),
]
PATIENCE_S = 300.0
PROGRAM = """
python3 - <<'PROGRAM'
import json, os, time
import ray
ray.init(logging_level="WARNING")
total = ray.cluster_resources()
print(json.dumps({
    "TPU": total["TPU"],
    "heads": {name: count for name, count in total.items() if name.endswith("-head")},
    "workers": sorted(
        (each["Labels"]["ray.io/tpu-slice-name"], each["Labels"]["ray.io/tpu-worker-id"],
         each["Labels"]["ray.io/tpu-topology"])
        for each in ray.nodes()
    ),
}), flush=True)
if os.environ["TPUCTL_ATTEMPT"] in os.environ.get("STAYS", ""):
    time.sleep(600)
PROGRAM
"""
HANGS = """
@ray.remote(resources={"TPU": 4})
def wait_for_ever():
    time.sleep(600)
ray.get([wait_for_ever.remote() for _ in range(4)])
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    home = tmp_path_factory.mktemp("ray")
    with gangs(home, "namespace", QUICK, "--python", str(ray_python())) as found:
        yield found


def told(here, name: str, attempt: int = 1) -> dict:
    texts = [line["text"] for line in here.lines(name, "--attempt", str(attempt))]
    assert any(text.startswith("tpuctl: Ray: 4 hosts joined the cluster at 10.") for text in texts)
    return json.loads(next(text for text in texts if text.startswith("{")))


def test_ray_finds_the_chips_of_four_hosts_and_its_logs_are_kept(here):
    here.submit("tasks", 4, PROGRAM, ray=True)
    done = here.until("tasks", lambda job: job.is_settled, PATIENCE_S)
    assert done.state == "SUCCEEDED", done.why
    name = done.attempts[0].node
    assert told(here, "tasks") == {
        "TPU": 16.0,
        "heads": {"TPU-v4-32-head": 1.0},
        "workers": [[name, str(number), "2x2x4"] for number in range(4)],
    }
    packed = job_bundle.collect(here.store(), done.job_id).files["a1/w3/ray_logs.tar.gz"]
    with tarfile.open(fileobj=io.BytesIO(packed)) as logs:
        assert "raylet.out" in logs.getnames()
    assert list(Path("/tmp").glob("ray-*/session_latest")) == []


def test_two_slices_are_one_cluster_and_a_preemption_begins_another(here):
    slices = {"num_slices": 2, "accelerators": "v4-16"}
    job = here.submit("slices", 2, PROGRAM, ray=True, resources=slices, envs={"STAYS": "1"})
    here.until("slices", lambda found: is_running(found) and has_step(here), PATIENCE_S)
    done = here.tpuctl("local", "preempt", f"{job}-a1-1", "--no-notice", "--zone", "us-central2-b")
    assert done.code == 0, done.err
    found = here.until("slices", lambda found: found.is_settled, PATIENCE_S)
    assert [each.outcome for each in found.attempts] == ["preempted", "succeeded"], found.why
    newest = told(here, "slices", 2)
    assert newest["heads"] == {"TPU-v4-16-head": 2.0}
    assert {name for name, *_ in newest["workers"]} == {f"{job}-a2-0", f"{job}-a2-1"}


def test_a_hang_ends_with_the_stacks_of_the_tasks(here):
    run = PROGRAM.replace("total = ", HANGS + "total = ")
    here.submit("hangs", 4, run, ray=True, timeouts={"hang": "40s"})
    done = here.until("hangs", lambda job: job.is_settled, PATIENCE_S)
    assert [each.outcome for each in done.attempts] == ["hung"], done.why
    found = job_bundle.collect(here.store(), done.job_id).files
    stacks = b"".join(text for name, text in found.items() if name.endswith("stacks.txt"))
    assert stacks.count(b"in wait_for_ever") == 4


def has_step(here) -> bool:
    """Whether the driver of the first attempt has spoken."""
    return any(line["text"].startswith("{") for line in here.lines("slices"))
