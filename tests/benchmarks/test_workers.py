"""The figures of simulated workers: `pytest -m benchmark -s tests/benchmarks/test_workers.py`."""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure import ROUNDS, keep, whole_process
from benchmarks.peers.bare_ssh import dial
from benchmarks.process_tree import cpu_s, descendants, pss_mib

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("namespaces"),
]

HERE = Path(__file__).parent
TPUCTL = [sys.executable, "-P", "-m", "tpuctl"]
PROMPT = "provisioning_delay_s: 0\ndeletion_delay_s: 0\nupdate_delay_s: 0\n"
TYPES = {
    4: ("v5litepod-16", "us-west4-a"),
    64: ("v5litepod-256", "us-west4-a"),
    256: ("v4-2048", "us-central2-b"),
}
"""Workers -> an accelerator type that has so many, and a zone that has it."""
POLL_S = 0.05
"""Whoever asks more often takes time away from what is measured."""
SETTLE_S = 2.0
IDLE_S = 20.0


@dataclass(frozen=True)
class Cloud:
    """A running simulator with workers in namespaces."""

    home: Path
    pid: int
    line: dict[str, Any]
    workers: int

    @property
    def vpc_port(self) -> int:
        return int(self.line["vpc"].rpartition(":")[2])

    @property
    def environ(self) -> dict[str, str]:
        home = {"HOME": str(self.home), "TPUCTL_HOME": str(self.home)}
        return {"PATH": os.environ["PATH"], **home}

    def ask(self, verb: str, path: str = "", body: object = None) -> Any:
        parent = f"projects/{self.line['project']}/locations/{TYPES[self.workers][1]}/nodes"
        url = f"{self.line['tpu_rest']}/v2/{parent}{path}"
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, data, headers, method=verb)
        with urllib.request.urlopen(request) as reply:
            return json.loads(reply.read())

    def create(self, name: str) -> list[str]:
        """The addresses of a node that has just become READY."""
        kind = TYPES[self.workers][0]
        body = {"acceleratorType": kind, "runtimeVersion": "tpu-ubuntu2204-base"}
        self.ask("POST", f"?nodeId={name}", body)
        while True:
            node = self.ask("GET", f"/{name}")
            if node["state"] == "READY":
                return [each["ipAddress"] for each in node["networkEndpoints"]]
            time.sleep(POLL_S)

    def delete(self, name: str) -> None:
        """Returns when it is gone."""
        self.ask("DELETE", f"/{name}")
        while self.ask("GET"):
            time.sleep(POLL_S)
        while len(descendants(self.pid)) > 3:  # itself and the two processes of the VPC
            time.sleep(POLL_S)
        while any(Path(self.line["state_dir"], "slices").iterdir()):
            time.sleep(POLL_S)

    async def answered(self, addresses: list[str]) -> None:
        """Every worker's SSH server has said who it is."""
        await asyncio.gather(*(self._banner(address) for address in addresses))

    async def _banner(self, address: str) -> None:
        with await dial(self.vpc_port, address) as connection:
            said = await asyncio.get_running_loop().sock_recv(connection, 64)
        assert said.startswith(b"SSH-2.0-")


@contextmanager
def cloud(home, workers):
    """A simulator for nodes of so many workers."""
    (scenario := home / "prompt.yaml").write_text(PROMPT)
    state_dir = home / "local" / "local"
    argv = ["serve", "--state-dir", str(state_dir), "--isolation", "namespace", "--offline"]
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "localsim", *argv, "--scenario", str(scenario)],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Cloud(home, process.pid, json.loads(process.stdout.readline()), workers)
        finally:
            process.terminate()


@pytest.mark.parametrize(("workers", "target_s"), [(4, 1), (64, 3), (256, 8)])
def test_ready_with_ssh_answering(workers, target_s, tmp_path):
    ours_s = []
    with cloud(tmp_path, workers) as here:
        for number in range(3 if workers == 256 else ROUNDS):
            began = time.perf_counter()
            addresses = here.create(f"n{number}")
            asyncio.run(here.answered(addresses))
            ours_s.append(time.perf_counter() - began)
            here.delete(f"n{number}")
    keep(
        f"{workers} workers READY with SSH answering",
        f"at most {target_s} s after the provisioning delay",
        ours_s=ours_s,
    )


@pytest.mark.parametrize(("workers", "target_mib"), [(4, 3), (64, 2), (256, 2)])
def test_an_idle_worker(workers, target_mib, tmp_path):
    with cloud(tmp_path, workers) as here:
        time.sleep(SETTLE_S)
        before_mib, before_s = pss_mib(here.pid), idle_cpu_s(here.pid)
        asyncio.run(here.answered(here.create("n1")))
        time.sleep(SETTLE_S)
        after_mib, after_s = pss_mib(here.pid), idle_cpu_s(here.pid)
    keep(
        f"an idle worker of {workers}",
        f"at most {target_mib} MiB PSS, no measurable CPU",
        ours_mib=[(after_mib - before_mib) / workers],
        without_any_mib=before_mib,
        cpu_s_in_20_s=[after_s],
        cpu_s_in_20_s_without_any=before_s,
    )


def idle_cpu_s(pid: int) -> float:
    """Processor seconds that a tree of processes takes in `IDLE_S`, doing nothing."""
    before_s = cpu_s(pid)
    time.sleep(IDLE_S)
    return cpu_s(pid) - before_s


def test_node_exec_on_64_workers(tmp_path):
    ours_s, peer_s, ours_whole_s, peer_whole_s = [], [], [], []
    with cloud(tmp_path, 64) as here:
        ours = ["node", "exec", "n1", "--", "echo", "hi"]
        addresses = here.create("n1")
        subprocess.run([*TPUCTL, "-q", *ours], env=here.environ, check=True, capture_output=True)
        key = here.home / "ssh" / "id_ed25519"
        bare = [str(HERE / "bare_ssh.py"), str(here.vpc_port), str(key), "tpuctl", *addresses]
        timed = [str(HERE / "timed_exec.py"), str(here.vpc_port), *ours]
        for _ in range(ROUNDS):
            ours_s.append(told(timed, here))
            peer_s.append(told(bare, here))
            ours_whole_s.append(whole_process([*TPUCTL, *ours], here.environ))
            peer_whole_s.append(whole_process([sys.executable, *bare], here.environ))
    more_s = statistics.median(ours_whole_s) - statistics.median(peer_whole_s)
    keep(
        "tpuctl node exec on 64 workers, from the first connect",
        "at most 1.3 x bare asyncssh; the whole process at most 0.6 s more",
        ours_s=ours_s,
        peer_s=peer_s,
        ratio=round(statistics.median(ours_s) / statistics.median(peer_s), 2),
        ours_whole_s=ours_whole_s,
        peer_whole_s=peer_whole_s,
        whole_process_more_s=round(more_s, 2),
    )


def told(argv: list[str], here: Cloud) -> float:
    """The seconds that a program prints."""
    done = subprocess.run(
        [sys.executable, "-P", *argv], env=here.environ, capture_output=True, text=True, check=True
    )
    return float(done.stdout)
