"""One stage: a process group, from its start until nothing of it is left. Python 3.8."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from tpuctl.agent.job import stack_dump
from tpuctl.agent.job.logs.job_log import JobLog
from tpuctl.agent.job.selector import Selector
from tpuctl.agent.job.state import processes
from tpuctl.agent.job.state.commands import RunCommands

BLOCK_BYTES = 256 * 1024
POLL_S = 0.05
AGAIN_S = 1.0
LEFTOVERS_S = 2.0
DYING_S = 10.0
DUMP_S = 5.0


def shell_argv(line: str, shell: Sequence[str] = ()) -> list[str]:
    """The argv that gives the user's own lines to a shell, to bash where none is given."""
    if shell:
        return [*shell, "-c", line]
    program = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"
    return [program, "-c", line]


def spawn(
    argv: list[str], directory: str, environ: Mapping[str, str], *, is_private: bool
) -> subprocess.Popen[bytes]:
    """Start a process group; stderr is joined to stdout unless private. Raises OSError."""
    return subprocess.Popen(
        argv,
        cwd=directory,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if is_private else subprocess.STDOUT,
        start_new_session=True,
        bufsize=0,
    )


def agent_environment(files: Mapping[str, str]) -> dict[str, str]:
    """Return the worker's variables, those that make programs report at once, and `files`.

    `files` are the variables that name the files to which a program writes of its progress.
    """
    return {
        "PYTHONFAULTHANDLER": "1",
        **os.environ,
        # Python programs print at once: a step line in a buffer is not progress.
        "PYTHONUNBUFFERED": "1",
        **files,
    }


def user_environment(
    directory: str, given: Mapping[str, str], library: str, files: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of `setup` and `run`: those given to them, and PYTHONPATH of tpuctl.

    `library` is the name of tpuctl's archive in the directory of the run.
    """
    found = {
        **agent_environment(files),
        **given,
        processes.MARK: directory,
    }
    # An empty entry would be the directory that a program runs in.
    paths = os.path.join(directory, library), found.get("PYTHONPATH")
    found["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return found


class Child:
    """A running stage: reads its output, and ends it when that is asked for."""

    def __init__(
        self, process: subprocess.Popen[bytes], selector: Selector, commands: RunCommands
    ) -> None:
        self.process = process
        self.selector = selector
        self.commands = commands
        self.limit: float | None = None
        """When it is killed, on the monotonic clock."""
        self.dump_until: float | None = None
        self.stacks: list[str] = []
        """Texts of the stack dump, empty when there was none."""
        self.kill_at: float | None = None
        self.is_warned = False

    def pump(self, log: JobLog, took: Callable[[bytes], None], tick: Callable[[], float]) -> None:
        """Pass on what it prints until it and its children have ended.

        `tick` is called after each time something may have happened, and says for how long
        nothing else is to be done.
        """
        while self.process.poll() is None:
            self.take(tick())
            self.enforce(log)
        # A shell ends at once when it is told to stop; what it started has the grace.
        while self.is_ending() and processes.is_group_alive(self.process.pid):
            self.take(min(POLL_S, tick()))
            self.enforce(log)
        processes.signal_group(self.process.pid, signal.SIGKILL)
        deadline = time.monotonic() + LEFTOVERS_S
        while self.selector.watched() and time.monotonic() < deadline:
            self.take(min(LEFTOVERS_S, tick()))
        self.selector.forget()
        took(log.end_line())
        # Until the last of them is gone it holds the chips, and the next attempt cannot have them.
        deadline = time.monotonic() + DYING_S
        while processes.is_group_alive(self.process.pid) and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def take(self, timeout_s: float) -> None:
        """Wait for news or output, though no longer than until something is due."""
        for due in (self.kill_at, self.dump_until, self.limit):
            if due is not None:
                timeout_s = min(timeout_s, max(0.0, due - time.monotonic()))
        self.selector.wait(timeout_s, BLOCK_BYTES)

    def is_ending(self) -> bool:
        """Whether it was asked to stop and its grace is not over."""
        return self.kill_at is not None or self.dump_until is not None or self.is_warned

    def enforce(self, log: JobLog) -> None:
        """Do what is due: warn, dump, SIGTERM, and SIGKILL when the grace is over."""
        now = time.monotonic()
        asked = self.commands.stop()
        if self.kill_at is not None:
            if now >= self.kill_at:
                self.kill(now)
        elif asked is not None and self.is_dumped(log, now, wants_dump=asked[1]):
            self.kill_at = now + asked[0]
            processes.signal_group(self.process.pid, signal.SIGTERM)
        elif asked is None and self.commands.must_warn() and not self.is_warned:
            self.is_warned = True
            processes.signal_group(self.process.pid, signal.SIGTERM)
        elif self.limit is not None and now >= self.limit:
            self.kill(now)

    def kill(self, now: float) -> None:
        """Send SIGKILL now, and again every AGAIN_S seconds."""
        processes.signal_group(self.process.pid, signal.SIGKILL)
        self.kill_at = now + AGAIN_S

    def is_dumped(self, log: JobLog, now: float, *, wants_dump: bool) -> bool:
        """Whether no dump is wanted or it is over; the first call begins one."""
        if not wants_dump:
            return True
        if self.dump_until is None:
            self.stacks = [stack_dump.kernel_view(self.process.pid, log.redaction)]
            log.heard = []
            self.dump_until = now + DUMP_S
            stack_dump.abort(self.process.pid)
            return False
        return now >= self.dump_until
