"""What reading gs:// on a worker costs: `pytest -m benchmark -s` of this file.

The worker in `namespace` mode reads over TLS, the one in `process` mode from the plain port.
"""

import json
import os
import statistics
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from clouds import Runner, serve

from benchmarks.measure import keep
from benchmarks.process_tree import own_cpu_s

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.timeout(1200),
    pytest.mark.usefixtures("namespaces"),
]

READER = Path(__file__).parents[1] / "peers" / "bucket_reader.py"
LARGE_BYTES = 256 * 1024 * 1024
ROUNDS = 7
MODES = ("namespace", "process")


@contextmanager
def worker(home: Path, mode: str) -> Iterator[tuple[Runner, int]]:
    """The command line of a simulator, and its process: node `n1` has the reader."""
    for cloud in serve(home, "--isolation", mode, "--manual-clock", "--offline"):
        tpuctl = Runner(cloud.home, sleep=cloud.control.advance)
        home.mkdir(exist_ok=True)
        (home / "large").write_bytes(os.urandom(LARGE_BYTES))
        assert tpuctl("node", "create", "n1", "-t", "v5litepod-4").code == 0
        assert tpuctl("node", "cp", str(READER), "n1:").code == 0
        assert tpuctl("data", "push", str(home / "large"), "gs://local-bucket/large").code == 0
        yield tpuctl, cloud.line["pid"]


def read(tpuctl: Runner, client: str, size_bytes: int) -> tuple[float, float]:
    """Seconds from the client's import to the bytes, by the clock and by its processor time."""
    argv = ("python3", READER.name, client, "gs://local-bucket/large", str(size_bytes))
    done = tpuctl("node", "exec", "n1", "--", *argv)
    assert done.code == 0, done.err
    wall_s, cpu_s = json.loads(done.out.splitlines()[-1])
    return wall_s, cpu_s


@pytest.mark.parametrize("client", ["gcsfs", "tensorstore"])
def test_the_first_byte(client: str, tmp_path: Path):
    with worker(tmp_path, "namespace") as (tpuctl, _):
        times = [read(tpuctl, client, 1) for _ in range(ROUNDS + 1)][1:]
    keep(
        f"the first byte of gs:// through {client} on a worker",
        "50 ms after its import",
        ours_s=[wall_s for wall_s, _ in times],
        client_cpu_s=[cpu_s for _, cpu_s in times],
    )


@pytest.mark.parametrize("client", ["tensorstore", "google", "gcsfs"])
def test_a_large_read_over_tls(client: str, tmp_path: Path):
    found: dict[str, list[tuple[float, float]]] = {mode: [] for mode in MODES}
    served_s = dict.fromkeys(MODES, 0.0)
    with ExitStack() as stack:
        workers = {mode: stack.enter_context(worker(tmp_path / mode, mode)) for mode in MODES}
        for _ in range(ROUNDS + 1):
            for mode, (tpuctl, pid) in workers.items():
                began_s = own_cpu_s(pid)
                found[mode].append(read(tpuctl, client, LARGE_BYTES))
                served_s[mode] += (own_cpu_s(pid) - began_s) / (ROUNDS + 1)
    ours, peer = ([wall_s for wall_s, _ in found[mode][1:]] for mode in MODES)
    keep(
        f"256 MiB read by {client} over TLS beside the plain port",
        "at least 0.8 x its throughput",
        ours_s=ours,
        peer_s=peer,
        client_cpu_s=[cpu_s for _, cpu_s in found["namespace"][1:]],
        peer_client_cpu_s=[cpu_s for _, cpu_s in found["process"][1:]],
        server_cpu_s=round(served_s["namespace"], 3),
        peer_server_cpu_s=round(served_s["process"], 3),
        ratio=round(statistics.median(peer) / statistics.median(ours), 2),
    )
