"""The cloud of one run: a simulator and a supervisor of its own, which end with this process."""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tpuctl.config import DEFAULT_CONTEXT, REDIRECTING, REDIRECTING_PREFIX
from tpuctl.durable_directories import make_private
from tpuctl.errors import LocalIOError
from tpuctl.operations.local import local_cloud
from tpuctl.operations.local.local_cloud import SimulatorOptions
from tpuctl.operations.rehearse.process_usage import end_process

SUPERVISOR = (sys.executable, "-P", "-m", "tpuctl.operations.rehearse.standby_supervisor")
NOT_INHERITED = ("TPUCTL_", REDIRECTING_PREFIX)
"""What variables of the caller would lead a run to another cloud begin with."""


@dataclass
class RunCloud:
    """The processes of one run; `start` makes it."""

    home: Path
    environ: Mapping[str, str]
    simulator: "subprocess.Popen[str]"
    supervisor: "subprocess.Popen[str]"
    line: Mapping[str, Any] = field(default_factory=dict)
    """The endpoints, once the simulator is ready."""
    cpu_s: float = 0.0
    """Of all processes that have ended."""

    @property
    def pids(self) -> tuple[int, int]:
        """The processes that all others of the run are below."""
        return self.simulator.pid, self.supervisor.pid

    def wait_until_ready(self) -> Mapping[str, Any]:
        """The endpoint line; the supervisor begins. Raises what a simulator's start does."""
        assert self.simulator.stdout is not None
        text = self.simulator.stdout.readline()
        if not text:
            self.cpu_s += end_process(self.simulator, signal.SIGKILL)
            raise local_cloud.startup_error(self.simulator.returncode or 0, _log(self.home))
        self.line = json.loads(text)
        _release(self.supervisor)
        return self.line

    def require_simulator(self) -> None:
        """Raise LocalIOError when the simulator has ended by itself."""
        if self.simulator.poll() is not None:
            raise LocalIOError(
                f"the simulator of a run ended by itself ({self.simulator.returncode})",
                hint=f"look at: {_log(self.home)}",
            )

    def replace_supervisor(self) -> None:
        """Kill the supervisor, and start another one."""
        self.cpu_s += end_process(self.supervisor, signal.SIGKILL)
        self.supervisor = _start_supervisor(self.home, self.environ)
        _release(self.supervisor)

    def close(self) -> None:
        """End both processes, and all below them."""
        self.cpu_s += end_process(self.supervisor, signal.SIGKILL)
        self.cpu_s += end_process(self.simulator, signal.SIGTERM)
        for process in (self.supervisor, self.simulator):
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()


def start_cloud(home: Path, options: SimulatorOptions, environ: Mapping[str, str]) -> RunCloud:
    """Start the simulator and the supervisor of a run, whose TPUCTL_HOME is `home`.

    Raises LocalIOError.
    """
    state = local_cloud.state_directory(home, DEFAULT_CONTEXT)
    own = {**without_redirections(environ), "TPUCTL_HOME": str(home)}
    argv = [*local_cloud.PROGRAM, "serve", "--state-dir", str(state), "--end-with-stdin"]
    simulator = _start([*argv, *options.arguments()], _log(home), own)
    return RunCloud(home, own, simulator, _start_supervisor(home, own))


def without_redirections(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what points at a cloud."""
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith(NOT_INHERITED) and not any(each in name for each in REDIRECTING)
    }


def _start_supervisor(home: Path, environ: Mapping[str, str]) -> "subprocess.Popen[str]":
    log = home / "supervisors" / f"{DEFAULT_CONTEXT}.log"
    return _start([*SUPERVISOR, str(home)], log, environ)


def _release(supervisor: "subprocess.Popen[str]") -> None:
    assert supervisor.stdin is not None
    supervisor.stdin.write("go\n")
    supervisor.stdin.flush()


def _log(home: Path) -> Path:
    return home / "local" / f"{DEFAULT_CONTEXT}.log"


def _start(argv: Sequence[str], log: Path, environ: Mapping[str, str]) -> "subprocess.Popen[str]":
    try:
        make_private(log.parent)
        output: IO[bytes] = log.open("ab")
    except OSError as error:
        raise LocalIOError(f"cannot write {log}: {error.strerror}") from error
    with output:
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            start_new_session=True,  # Ctrl-C is for us alone
            cwd="/",
            env=environ,
            text=True,
        )
