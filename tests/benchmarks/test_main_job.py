"""The figures of the main job: `pytest -m benchmark -s tests/benchmarks`."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.measure import ROUNDS, alternate, cpu_time, keep, resident
from tpuctl.operations.local import local_cloud

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

TPUCTL = str(Path(sys.executable).with_name("tpuctl"))
BARE = [sys.executable, "-c", "pass"]
NEVER_READY = "provisioning_delay_s: 1000000\n"


@pytest.fixture
def environ(tmp_path):
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TPUCTL_HOME": str(tmp_path / "t")}


@pytest.fixture
def cloud(environ, tmp_path):
    """A simulator whose nodes never boot: a list is a list."""
    scenario = tmp_path / "never-ready.yaml"
    scenario.write_text(NEVER_READY)
    home = Path(environ["TPUCTL_HOME"])
    yield local_cloud.up(home, "local", local_cloud.SimulatorOptions(scenario=scenario))
    local_cloud.down(home, "local")


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_start_up(option, environ):
    found = alternate([TPUCTL, option], BARE, environ=environ, rounds=21, measure=cpu_time)
    keep(
        f"tpuctl {option}",
        "at most 6 x `python -c pass`, CPU time",
        ours_s=found.ours_s,
        peer_s=found.peer_s,
        ratio=round(found.ratio, 2),
    )


def test_no_credentials(environ):
    home = Path(environ["TPUCTL_HOME"])
    home.mkdir()
    (home / "config.yaml").write_text(
        "contexts: {lab: {project: p, zone: us-west4-a, bucket: b}}\n"
    )
    argv = ["sh", "-c", '"$@"; test $? -eq 20', "sh", TPUCTL, "-c", "lab", "-q", "node", "list"]
    found = alternate(argv, BARE, environ=environ)
    keep("tpuctl node list without credentials", "at most 0.2 s, exit 20", ours_s=found.ours_s)


@pytest.mark.parametrize(("count", "target"), [(1, 0.4), (1000, 0.2)])
def test_node_list_against_gcloud(count, target, environ, cloud, tmp_path):
    gcloud = shutil.which("gcloud")
    if gcloud is None:
        pytest.skip("gcloud is not installed")
    create_nodes(cloud, count)
    gcloud_environ = {
        **environ,
        **local_cloud.client_environment(cloud),
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
    }
    peer = [gcloud, "compute", "tpus", "tpu-vm", "list", f"--zone={cloud['zone']}"]
    ours = [TPUCTL, "node", "list", "--zone", cloud["zone"]]
    found = alternate(ours, peer, environ=gcloud_environ)
    keep(
        f"tpuctl node list, {count} nodes",
        f"at most {target} x gcloud compute tpus tpu-vm list",
        ours_s=found.ours_s,
        peer_s=found.peer_s,
        ratio=round(found.ratio, 3),
    )


def test_the_simulator_is_ready_soon_and_small(environ, tmp_path):
    ready_s, resident_mib = [], []
    for number in range(ROUNDS):
        argv = [
            sys.executable,
            "-m",
            "localsim",
            "serve",
            "--state-dir",
            str(tmp_path / str(number)),
        ]
        began = time.perf_counter()
        with subprocess.Popen(argv, stdout=subprocess.PIPE, env=environ, cwd="/") as process:
            json.loads(process.stdout.readline())
            ready_s.append(time.perf_counter() - began)
            time.sleep(0.5)
            resident_mib.append(resident(process.pid))
            process.terminate()
    keep("localsim ready", "at most 0.6 s", ours_s=ready_s)
    keep("localsim resident when idle", "under 100 MiB", ours_mib=resident_mib)


def test_quickstart(environ):
    took_s = []
    for _ in range(3):
        began = time.perf_counter()
        done = subprocess.run(
            [TPUCTL, "quickstart", "-o", "json"], env=environ, capture_output=True
        )
        took_s.append(time.perf_counter() - began)
        assert done.returncode == 0, done.stderr.decode()
    keep("tpuctl quickstart", "under 40 s", ours_s=took_s)
    assert statistics.median(took_s) > 0


def create_nodes(line, count: int) -> None:
    import grpc
    from google.cloud import tpu_v2
    from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport

    with grpc.insecure_channel(line["tpu_grpc"]) as channel:
        api = tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel))
        parent = f"projects/{line['project']}/locations/{line['zone']}"
        for number in range(count):
            node = tpu_v2.Node(
                accelerator_type="v5litepod-1", runtime_version="v2-alpha-tpuv5-lite"
            )
            api.create_node(parent=parent, node_id=f"n{number:04}", node=node)
