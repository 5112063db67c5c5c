"""Stacks of a run's processes, taken before a run that makes no progress is killed. Python 3.8."""

from __future__ import annotations

import contextlib
import os
import signal

from tpuctl.agent.job.logs.redaction import Redaction
from tpuctl.agent.job.state import processes

COMMAND_CHARACTERS = 300
SIGABRT_HEADING = "\n==== printed after SIGABRT\n"


def kernel_view(group: int, redaction: Redaction) -> str:
    """Return a text of every process of a group and where its threads wait in the kernel."""
    rows = [process_stacks(pid, redaction) for pid in processes.members(group)]
    return "".join(rows) or "no /proc here\n"


def process_stacks(pid: int, redaction: Redaction) -> str:
    """Return command and threads of a process; empty when it has ended."""
    line: str = redaction.redact_json(read_proc_file(f"/proc/{pid}/cmdline").replace("\0", " "))
    command = line[:COMMAND_CHARACTERS]  # cut last: half of a secret would not be known as one
    try:
        threads = sorted(map(int, os.listdir(f"/proc/{pid}/task")))
    except OSError:
        return ""
    rows = "".join(thread_stack(f"/proc/{pid}/task/{thread}") for thread in threads)
    return f"==== process {pid}: {command}\n{rows}"


def thread_stack(path: str) -> str:
    """Return name, state, kernel function and, for root, kernel stack of /proc/PID/task/TID."""
    lines = read_proc_file(f"{path}/status").split("\n")
    fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    wchan = read_proc_file(f"{path}/wchan")
    stack = "".join(f"    {line}\n" for line in read_proc_file(f"{path}/stack").split("\n") if line)
    number = os.path.basename(path)
    name, state = fields.get("Name", "?"), fields.get("State", "?")
    return f"thread {number} {name}: {state}, waits in {wchan or '?'}\n{stack}"


def read_proc_file(path: str) -> str:
    """Return the text of a file of /proc; empty when it cannot be read."""
    with contextlib.suppress(OSError), open(path, errors="replace") as file:
        return file.read()
    return ""


def abort(group: int) -> None:
    """Send SIGABRT, on which Python prints the stack of every thread; no core is written."""
    with contextlib.suppress(ImportError, AttributeError):
        import resource

        for pid in processes.members(group):
            with contextlib.suppress(OSError):
                _, most = resource.prlimit(pid, resource.RLIMIT_CORE)
                resource.prlimit(pid, resource.RLIMIT_CORE, (0, most))
    processes.signal_group(group, signal.SIGABRT)
