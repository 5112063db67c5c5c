"""`localsim.cloud()`: what tests do with it, and that nothing of it stays."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import clouds
import pytest

import localsim
from localsim.testing import SimulatedCloudError

QUICK = {"provisioning_delay_s": 0, "acceptance_delay_s": 0, "deletion_delay_s": 0}
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def shared():
    with localsim.cloud(QUICK, clock="manual", isolation="process", offline=True) as cloud:
        yield cloud


@pytest.fixture
def cloud(shared):
    shared.reset()
    return shared


def test_googles_clients_use_it(cloud):
    bucket = cloud.bucket("data-of-mine")
    bucket.blob("a").upload_from_string("hello")
    assert bucket.blob("a").download_as_text() == "hello"
    cloud.create_slice("v5litepod-8", name="n1")
    parent = f"projects/{cloud.project}/locations/{cloud.zone}"
    nodes = list(cloud.tpu_client().list_nodes(parent=parent))
    assert [node.name for node in nodes] == [f"{parent}/nodes/n1"]


def test_a_slice_runs_commands_until_it_is_preempted(cloud):
    tpu = cloud.create_slice("v5litepod-16", spot=True)
    assert (tpu.state, tpu.worker_count) == ("READY", 4)
    assert tpu.run("echo", "hi", worker=0).out == "hi\n"
    assert tpu.preempt(notice_s=0) == 0
    assert tpu.state == "PREEMPTED"
    tpu.delete()
    with pytest.raises(SimulatedCloudError, match="not found"):
        tpu.describe()


def test_time_is_in_the_hand_of_the_test(cloud):
    before_s = cloud.clock.now()
    assert cloud.clock.advance(90) == cloud.clock.now() == before_s + 90


def test_faults_strike_until_they_are_cleared(cloud):
    cloud.fault("storage.objects.list: return-503 x1")
    assert [fault["fault"] for fault in cloud.faults()] == ["storage.objects.list: return-503 x1"]
    cloud.clear_faults()
    assert cloud.faults() == []
    with pytest.raises(SimulatedCloudError, match="gibberish"):
        cloud.fault("gibberish")


def test_a_reset_leaves_an_empty_cloud_to_the_same_clients(cloud):
    client = cloud.storage_client()
    client.create_bucket("of-this-test").blob("a").upload_from_string("hello")
    cloud.create_slice("v5litepod-8")
    cloud.fault("GetNode: UNAVAILABLE x2")
    assert cloud.tpuctl("context", "show").exit_code == 0
    cloud.reset()
    assert [bucket.name for bucket in client.list_buckets()] == [cloud.endpoints["bucket"]]
    assert cloud.faults() == []
    assert cloud.tpuctl("node", "list", "-o", "json").json() == []


def test_a_wrong_type_is_refused_in_the_words_of_the_catalog(cloud):
    with pytest.raises(Exception, match="v5litepod-17"):
        cloud.create_slice("v5litepod-17")


def test_a_program_finds_the_cloud_by_its_environment(cloud):
    program = (
        "from google.cloud.storage import Client\n"
        "print([bucket.name for bucket in Client().list_buckets()])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **cloud.environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == f"['{cloud.endpoints['bucket']}']\n"


JOB = """\
name: count
resources: {accelerators: v5litepod-8}
run: |
  echo step=1
  exit 3
"""


def test_a_job_runs_to_its_end_and_leaves_nothing(tmp_path):
    (tmp_path / "job.yaml").write_text(JOB)
    with localsim.cloud(QUICK, isolation="process", offline=True) as cloud:
        run = cloud.run_job(tmp_path / "job.yaml")
        assert (run.state, run.exit_code, run.resumed_step) == ("FAILED", 71, 0)
        assert [attempt.outcome for attempt in run.attempts] == ["failed"]
        assert run.log == "[0] step=1\n"
        supervisor = (cloud.home / "supervisors" / "local.lock").read_text().splitlines()[1:]
    assert not cloud.home.exists()
    assert [pid for pid in supervisor if is_running(int(pid))] == []


def test_everything_ends_with_the_block_also_by_an_exception():
    with pytest.raises(ZeroDivisionError), localsim.cloud(isolation="process") as cloud:
        raise ZeroDivisionError
    assert not is_running(cloud.endpoints["pid"])
    assert not cloud.home.exists()


OWNER = """\
import localsim, time
with localsim.cloud({scenario}) as cloud:
    cloud.create_slice("v5litepod-8")
    print(cloud.endpoints["pid"], cloud.home, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        *(pytest.param(each, marks=clouds.MATRIX) for each in (signal.SIGTERM, signal.SIGINT)),
    ],
)
def test_everything_ends_with_the_process_that_owns_it(number):
    argv = [sys.executable, "-c", OWNER.format(scenario=QUICK)]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as owner:
        pid, home = owner.stdout.readline().split()
        owner.send_signal(number)
        assert owner.wait() == -number
    wait_until(lambda: not is_running(int(pid)) and not Path(home).exists())


def test_a_scenario_that_is_refused_is_told_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with (
        pytest.raises(SimulatedCloudError, match=r"^the simulated cloud does not start: .*'sky'.*"),
        localsim.cloud({"sky": "blue"}),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def wait_until(is_so):
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
