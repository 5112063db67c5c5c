"""Command lines about jobs as processes that are signalled, and what they leave running.

A job is held in one phase: by a file that its program waits for, or by a cloud that gives nothing.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml
from clouds import Cloud, serve

from tpuctl import config
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.config import Config
from tpuctl.jobs.local import supervisor_lock
from tpuctl.jobs.record import record_store
from tpuctl.models.job import JobRecord
from tpuctl.operations.local import local_cloud

QUICK = (
    "provisioning_delay_s: 0.1\nacceptance_delay_s: 0.05\n"
    "deletion_delay_s: 0.05\nsuspension_delay_s: 0.05\n"
)
TYPE = "v5litepod-1"
CONTEXTS = tuple(f"c{number}" for number in range(6))
"""Of one cloud: each has a supervisor's seat of its own."""
DEADLINE_S = 90.0
LEAVE_S = 20.0
BETWEEN_S = 0.1
"""Between the two signals of an impatient person."""
BUG = re.compile(
    "Traceback|Exception ignored|was destroyed but|never retrieved|never awaited|a bug in tpuctl"
)


@dataclass(frozen=True)
class Ending:
    """How a client is made to end, and the exit status that follows."""

    name: str
    signals: tuple[signal.Signals, ...]
    status: int

    @property
    def is_told(self) -> bool:
        """Whether the client can say anything before it goes."""
        return self.status in (130, 143)


INT, TERM, HUP, KILL = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL
ENDINGS = (
    Ending("int", (INT,), 130),
    Ending("int-twice", (INT, INT), 130),
    Ending("term", (TERM,), 143),
    Ending("hup", (HUP,), -1),
    Ending("kill", (KILL,), -9),
)


class Client:
    """`tpuctl` as a process, and what it says."""

    def __init__(self, bench: "Bench", name: str, *argv: str) -> None:
        self.said = bench.directory / f"{name}.said"
        self.name = name
        with self.said.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tpuctl", *argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env={**os.environ, "TPUCTL_HOME": str(bench.home)},
            )

    @property
    def text(self) -> str:
        said = self.said.read_text("utf-8", "replace")
        return re.sub(r"--context c\d ", "", said)  # it is not the one in use

    def until_said(self, text: str) -> None:
        """It says so while it runs."""
        deadline = time.monotonic() + DEADLINE_S
        while text not in self.text:
            assert self.process.poll() is None, self.text
            assert time.monotonic() < deadline, self.text
            time.sleep(0.05)

    def end(self, ending: Ending) -> float:
        """Send it the signals; seconds from the last one to its end."""
        for number, each in enumerate(ending.signals):
            if number:
                time.sleep(BETWEEN_S)
            began = time.monotonic()
            self.process.send_signal(each)
        assert self.process.wait(LEAVE_S) == ending.status, (self.name, self.text)
        return time.monotonic() - began


@dataclass
class Bench:
    """A simulator, its jobs, and every client that was started."""

    cloud: Cloud
    directory: Path
    clients: list[Client] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.cloud.home

    def client(self, name: str, *argv: str) -> Client:
        self.clients.append(Client(self, f"{len(self.clients)}-{name}", *argv))
        return self.clients[-1]

    def job_file(self, name: str, gate: Path) -> str:
        """Its setup waits for one file, its program for another."""
        until = "until [ -e {} ]; do sleep 0.1; done"
        job = {
            "name": name,
            "resources": {"accelerators": TYPE},
            "setup": until.format(gate / "prepared"),
            "run": f"echo step=1; {until.format(gate / 'go')}",
        }
        path = self.directory / f"{name}.yaml"
        path.write_text(yaml.safe_dump(job))
        return str(path)

    def runtime(self, context: str = CONTEXTS[0]) -> Runtime:
        environ = {"TPUCTL_HOME": str(self.home), "TPUCTL_CONTEXT": context}
        return Runtime(environ=environ)

    def jobs(self) -> list[JobRecord]:
        return record_store.load_all(self.runtime().store(), on_unreadable=lambda error: None)

    def named(self, *names: str) -> list[JobRecord]:
        return [job for job in self.jobs() if job.spec.name in names]

    def until(self, *names: str, is_so: Callable[[JobRecord], bool]) -> list[JobRecord]:
        """The jobs of these names, when there is one of each and it is so of all of them."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            found = self.named(*names)
            if len(found) >= len(names) and all(map(is_so, found)):
                assert len(found) == len(names), "a job twice"
                return found
            told = [(job.job_id, job.state, job.why) for job in found]
            assert time.monotonic() < deadline, (told, [each.text for each in self.clients])
            time.sleep(0.1)

    def settle(self, *names: str, context: str = CONTEXTS[0]) -> None:
        """As the person is told to: a supervisor, where there is none, until no job is left."""
        if not supervisor_lock.is_locked(self.home, context):
            self.client("supervisor", "-c", context, "supervisor", "run")
        self.until(*names, is_so=lambda job: job.is_settled)
        deadline = time.monotonic() + DEADLINE_S
        while any(supervisor_lock.is_locked(self.home, each) for each in CONTEXTS):
            assert time.monotonic() < deadline, "supervisors end when there is nothing to do"
            time.sleep(0.1)

    def left(self) -> int:
        """Nodes and requests of the cloud, and processes of jobs."""
        tpu = self.runtime().tpu
        (nodes, _), (requests, _) = tpu.list_nodes(), tpu.list_queued_resources()
        return len(nodes) + len(requests) + len(self.programs("agent.py"))

    def programs(self, text: str) -> list[str]:
        """Command lines with that text of processes on this simulator's workers."""
        home, found = os.fsencode(self.home), []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if home in (path / "environ").read_bytes():
                    argv = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found += [argv] if text in argv else []
            except OSError:
                continue
        return found

    def bugs(self) -> list[str]:
        """What no client and no supervisor may say."""
        said = [*self.directory.glob("*.said"), *(self.home / "supervisors").glob("*.log")]
        return [each.read_text() for each in said if BUG.search(each.read_text())]

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The network is gone: whatever is asked, nobody answers."""
        pid = int(self.cloud.line["pid"])
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def bench(directory: Path) -> Iterator[Bench]:
    """A simulator on real time, as several contexts of one home."""
    home = directory / "home"
    (directory / "quick.yaml").write_text(QUICK)
    options = ("--isolation", "process", "--offline", "--scenario", str(directory / "quick.yaml"))
    for cloud in serve(home, *options):
        made = local_cloud.context_of(cloud.line)
        config.save(home, Config(None, {name: replace(made, name=name) for name in CONTEXTS}))
        found = Bench(cloud, directory)
        try:
            yield found
        finally:
            for each in found.clients:
                each.process.kill()
                each.process.wait()
            for name in CONTEXTS:
                supervisor_lock.stop_supervisor(home, name)
