"""The doctor: all checks side by side on a local cloud, and a network that never answers."""

import os
import socket
import statistics
import subprocess
import sys
import time

import pytest

from benchmarks.measure import keep
from tpuctl.config import ANONYMOUS, Config, Context, save

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(300)]

ROUNDS = 7
LOCAL_S, DEAD_S = 3.0, 10.0
UNREACHABLE = "192.0.2.1:443"
"""An address for documentation (RFC 5737), which no network has."""
DOCTOR = [sys.executable, "-P", "-m", "tpuctl", "doctor", "-o", "json"]


def seconds_of(home, code: int) -> float:
    """How long one command takes as a process of its own."""
    environ = {**os.environ, "TPUCTL_HOME": str(home)}
    began_s = time.perf_counter()
    done = subprocess.run(DOCTOR, env=environ, capture_output=True, check=False)
    took_s = time.perf_counter() - began_s
    assert done.returncode == code, done.stderr.decode()
    return took_s


def test_doctor_on_a_local_cloud(manual_cloud):
    times = [seconds_of(manual_cloud.home, 0) for _ in range(ROUNDS)]
    keep("doctor on a local cloud", f"median {LOCAL_S:.0f} s", ours_s=times)
    assert statistics.median(times) <= LOCAL_S


@pytest.mark.parametrize("place", ["unreachable", "silent"])
def test_doctor_on_a_dead_network(tmp_path, place):
    """Nobody is at the address; or somebody takes the connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        address = UNREACHABLE if place == "unreachable" else f"127.0.0.1:{silent.getsockname()[1]}"
        url = f"http://{address}"
        endpoints = {
            name: url
            for name in Context.__dataclass_fields__
            if name.endswith("_endpoint") and name != "tpu_endpoint"
        }
        dead = Context(
            "dead", "p", "us-west4-a", "b",
            tpu_endpoint=address, credentials=ANONYMOUS, **endpoints,
        )  # fmt: skip
        home = tmp_path / "home"
        save(home, Config("dead", {"dead": dead}))
        times = [seconds_of(home, 40) for _ in range(ROUNDS)]
    keep(f"doctor on a dead network: {place}", f"at most {DEAD_S:.0f} s", ours_s=times)
    assert max(times) <= DEAD_S
