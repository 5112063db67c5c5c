"""Slices of a simulator in either mode, and plain OpenSSH to each of their workers."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from clouds import Cloud, Runner, serve

ZONE = "us-central2-b"
TYPES = {1: "v4-8", 2: "v4-16", 4: "v4-32", 16: "v4-128"}
"""Accelerator types by their workers; each worker has four chips."""
CHIPS = 4
PROGRAMS = Path(__file__).with_name("worker_programs")
QUICK = "provisioning_delay_s: 0.1\nacceptance_delay_s: 0.1\ndeletion_delay_s: 0.1\n"


@dataclass(frozen=True)
class Slice:
    """A READY node as OpenSSH sees it."""

    addresses: list[str]
    ssh: list[str]

    def command(self, worker: int, *command: str) -> list[str]:
        """The argv that runs a command on a worker."""
        return [*self.ssh, self.addresses[worker], *command]

    def put(self, program: Path) -> None:
        """Lay a program into the home of every worker, and nothing else."""
        for worker in range(len(self.addresses)):
            with program.open("rb") as file:
                argv = self.command(worker, f"cat > {program.name}")
                subprocess.run(argv, stdin=file, check=True, timeout=60)

    def start(self, *command: str) -> list["subprocess.Popen[str]"]:
        """Run a command on every worker at once."""
        return [
            subprocess.Popen(
                self.command(worker, *command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for worker in range(len(self.addresses))
        ]


@dataclass(frozen=True)
class Lab:
    """A simulator in one mode."""

    mode: str
    cloud: Cloud
    tpuctl: Runner

    def node(self, name: str, workers: int) -> Slice:
        """A new slice; the same one when it is asked for again."""
        if self.tpuctl("node", "describe", name, "--zone", ZONE).code:
            made = self.tpuctl("node", "create", name, "-t", TYPES[workers], "--zone", ZONE)
            assert made.code == 0, made.err
        return self.slice(name)

    def slice(self, name: str) -> Slice:
        """A slice that is there."""
        found = self.tpuctl("node", "describe", name, "--zone", ZONE, "-o", "json").json
        return Slice(found["addresses"], self._ssh())

    def _ssh(self) -> list[str]:
        port = self.cloud.line["vpc"].rpartition(":")[2]
        proxy = f"{sys.executable} {Path(__file__).with_name('socks_proxy.py')} {port} %h %p"
        options = [
            f"ProxyCommand={proxy}", "User=tpuctl", "BatchMode=yes", "LogLevel=ERROR",
            f"IdentityFile={self.cloud.home / 'ssh' / 'id_ed25519'}", "IdentitiesOnly=yes",
            "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "ServerAliveInterval=15",
        ]  # fmt: skip
        return ["ssh", "-F", "none", *(part for each in options for part in ("-o", each))]


def open_lab(home: Path, mode: str) -> Iterator[Lab]:
    """A simulator on real time in one mode; all its slices are deleted with it."""
    scenario = home / "quick.yaml"
    scenario.write_text(QUICK)
    for cloud in serve(home, "--isolation", mode, "--offline", "--scenario", str(scenario)):
        yield Lab(mode, cloud, Runner(home))


def reports(*groups: "list[subprocess.Popen[str]]") -> list[list[dict]]:
    """What the programs of each slice printed as their last line, in the order of workers."""
    found = []
    for programs in groups:
        ends = [program.communicate(timeout=90) for program in programs]
        codes = [program.returncode for program in programs]
        assert not any(codes), [error[-2000:] for _, error in ends]
        found.append([json.loads(out.splitlines()[-1]) for out, _ in ends])
    return found


def has_openssh() -> bool:
    """Whether the stock client is installed."""
    return shutil.which("ssh") is not None
