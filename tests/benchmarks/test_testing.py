"""Clouds for tests: how soon one is ready, how soon it is empty again, what the plugin costs.

MOTO_PYTHON is a Python that has moto[s3,server]: its server is the peer.
"""

import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

import localsim
from benchmarks.measure import ROUNDS, alternate, cpu_time, keep
from localsim.service_ports import choose_ports

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

EMPTY = "def test_nothing():\n    pass\n"
COLLECT = ("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider")


@pytest.mark.parametrize("isolation", ["namespace", "process"])
def test_a_fresh_cloud(isolation):
    ready_s, end_s = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        with localsim.cloud(isolation=isolation):
            ready_s.append(time.perf_counter() - began)
            began = time.perf_counter()
        end_s.append(time.perf_counter() - began)
    keep(f"a cloud for tests, ready, {isolation}", "0.7 s", ours_s=ready_s, end_s=end_s)


@pytest.mark.parametrize("isolation", ["namespace", "process"])
@pytest.mark.parametrize("content", ["nothing", "20 objects", "a slice of 4 workers"])
def test_a_reset(isolation, content):
    found = []
    with localsim.cloud(isolation=isolation) as cloud:
        for _ in range(ROUNDS):
            fill(cloud, content)
            began = time.perf_counter()
            cloud.reset()
            found.append(time.perf_counter() - began)
    keep(f"a cloud for tests, reset of {content}, {isolation}", "0.02 s", ours_s=found)


def fill(cloud, content):
    """Put into a cloud what a test leaves."""
    if content == "20 objects":
        bucket = cloud.bucket()
        for number in range(20):
            bucket.blob(f"object-{number}").upload_from_string("x" * 1000)
    elif content != "nothing":
        cloud.create_slice("v5litepod-16")


def test_the_plugin_where_it_is_not_used(tmp_path):
    """Both without other plugins, whose start takes longer than all that is measured here."""
    test = tmp_path / "test_empty.py"
    test.write_text(EMPTY)
    bare = [sys.executable, *COLLECT, str(test)]
    found = alternate(
        [*bare, "-p", "localsim.testing.pytest_plugin"],
        bare,
        environ={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        rounds=21,
        measure=cpu_time,
    )
    keep(
        "pytest --collect-only with the plugin",
        "1.02 x without, CPU time",
        ours_s=found.ours_s,
        peer_s=found.peer_s,
        ratio=round(found.ratio, 3),
    )


@pytest.mark.skipif("MOTO_PYTHON" not in os.environ, reason="set MOTO_PYTHON")
def test_the_server_of_moto():
    program = Path(os.environ["MOTO_PYTHON"]).with_name("moto_server")
    ready_s, reset_s = [], []
    for _ in range(ROUNDS):
        port = choose_ports(None, {}, ("moto",))["moto"]
        url = f"http://127.0.0.1:{port}/moto-api"
        began = time.perf_counter()
        with subprocess.Popen(
            [program, "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as server:
            while not answers(url):
                time.sleep(0.002)
            ready_s.append(time.perf_counter() - began)
            began = time.perf_counter()
            urllib.request.urlopen(f"{url}/reset", data=b"").close()
            reset_s.append(time.perf_counter() - began)
            server.terminate()
    keep("moto_server, ready and reset", "the peer", peer_s=ready_s, reset_s=reset_s)


def answers(url):
    """Whether a server is there."""
    try:
        urllib.request.urlopen(url).close()
    except OSError:
        return False
    return True
