"""A worker of a job's test: a directory with the agent as it is shipped, and its verbs."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import tpuctl
from tpuctl.agent import ship
from tpuctl.agent.job import agent
from tpuctl.agent.job.state import processes
from unit.agent.bucket_server import BucketServer, serving

AGENT = Path(tpuctl.__file__).parent / "agent"
DEADLINE_S = 20.0
JOB = "digits-a1b2c3"


def install(directory: Path) -> None:
    """The files of the agent, as they lie on a worker; compiled, where they are compiled here."""
    package = directory / "tpuctl" / "agent"
    for room in ("job", "data", "metrics", "tools"):
        shutil.copytree(AGENT / room, package / room)
    for path in (package.parent, package, package / "data", package / "tools"):
        (path / "__init__.py").touch()
    for name in ship.SHARED:
        shutil.copy(AGENT.parent / name, package.parent)
    shutil.copy(AGENT / "job" / "agent.py", directory)


class Worker:
    """One run's directory and the commands to its agent."""

    python = [sys.executable, "-S", "-W", "error"]

    def __init__(self, home: Path, server: BucketServer, attempt: int = 1) -> None:
        self.home = home
        self.server = server
        self.attempt = attempt
        self.directory = home / f"{JOB}-a{attempt}"
        self.directory.mkdir(parents=True)
        install(self.directory)

    def configure(self, run: str, **extra) -> None:
        config = {
            "protocol": 2, "job": JOB, "attempt": self.attempt, "endpoint": self.server.endpoint,
            "bucket": "b", "logs": f"logs/a{self.attempt}/w0", "run": run,
            "final": f"status/a{self.attempt}/w0", "stacks": f"stacks/a{self.attempt}/w0",
            "metrics": f"metrics/a{self.attempt}/w0",
            "env": {"TPUCTL_WORKER_ID": "0"}, "fence": 0, "library": "library.zip",
            **extra,
        }  # fmt: skip
        (self.directory / "config.json").write_text(json.dumps(config))

    def argv(self, verb: str, *options: str) -> list[str]:
        return [*self.python, str(self.directory / "agent.py"), verb, str(self.directory), *options]

    @property
    def environ(self) -> dict[str, str]:
        here = self.server
        return {
            **os.environ,
            "GCE_METADATA_HOST": here.address,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": f"{here.endpoint}/",
        }

    def agent(self, verb: str, *options: str, stdin: str = "") -> subprocess.CompletedProcess:
        done = subprocess.run(
            self.argv(verb, *options), env=self.environ, input=stdin,
            capture_output=True, text=True, timeout=DEADLINE_S,
        )  # fmt: skip
        assert "Warning" not in done.stderr
        return done

    def order(self, verb: str, *options: str) -> int:
        """`start` or `stop` from this process: it leaves a word in the directory."""
        return agent.main([verb, str(self.directory), *options])

    def run(self, command: str, told: dict[str, str] | None = None, **extra) -> None:
        self.configure(command, **extra)
        assert self.agent("run", stdin=json.dumps({"secrets": told or {}})).returncode == 0

    def status(self) -> dict:
        try:
            return json.loads((self.directory / "status.json").read_text())
        except FileNotFoundError:
            return {}

    def until(self, **wanted) -> dict:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            status = self.status()
            if all(status.get(key) == value for key, value in wanted.items()):
                return status
            time.sleep(0.01)
        raise AssertionError(f"{wanted} never came: {self.status()}\n{self.errors()}")

    def begin(self, command: str, told: dict[str, str] | None = None, **extra) -> dict:
        self.run(command, told, **extra)
        self.until(phase="prepared")
        assert self.order("start") == 0
        return self.until(phase="running")

    def finish(self, command: str, told: dict[str, str] | None = None, **extra) -> dict:
        assert self.order("start") == 0  # before it waits for that
        self.run(command, told, **extra)
        return self.until(closed=True)

    def errors(self) -> str:
        path = self.directory / "agent.err"
        return path.read_text() if path.exists() else ""

    def log(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted((self.directory / "log").iterdir()))

    def text(self) -> str:
        lines = self.log().decode(errors="replace").splitlines()
        return "\n".join(line.partition(" ")[2] for line in lines)

    def until_printed(self, text: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while text not in self.text() and time.monotonic() < deadline:
            time.sleep(0.01)

    def final(self) -> dict:
        return json.loads(self.server.store.get_range(f"status/a{self.attempt}/w0"))

    def close(self) -> None:
        """End what a test left running."""
        pid = self.status().get("agent_pid")
        if pid and not self.status().get("closed"):
            self.order("stop", "--grace", "0")
            self.until(closed=True)
        if pid and processes.start_ticks(pid) == self.status().get("agent_started", 0):
            with contextlib.suppress(ProcessLookupError):  # the bucket is away: it goes on trying
                os.kill(pid, signal.SIGTERM)
        assert self.errors() == ""


@contextlib.contextmanager
def working(directory: Path) -> Iterator[Worker]:
    """A worker, and the services that it finds."""
    with serving(directory / "bucket") as server:
        worker = Worker(directory / "home", server)
        try:
            yield worker
        finally:
            worker.close()


def alive_in(group: int) -> list[str]:
    """The states of a process group's processes that are not dead yet."""
    rows = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended since
            rows.append(file.read_text().rpartition(")")[2].split())
    return [state for state, _parent, pgid, *_ in rows if int(pgid) == group and state != "Z"]
