"""Prints where the threads of a worker's programs are, and ends none of them: the key `d` of `top`.

Its programs are what a job has started, and whoever holds the chips. Of each thread: its name, its
state, what it waits for in the kernel and, for root, the kernel's stack; with py-spy on the worker
Python's own stacks as well. Shipped as `python3 -X utf8 -c SOURCE`. Standard library only,
Python 3.8.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys

from tpuctl.agent.tools import holders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MARK = "TPUCTL_DIRECTORY="
"""In the environment of whatever a job starts."""
COMMAND_CHARACTERS = 300
PYTHON_STACK_S = 10.0


def process_stacks(pid: int, redact: Callable[[str], str] = str) -> str:
    """Return command and threads of a process; empty when it has ended."""
    line = redact(read_proc_file(f"/proc/{pid}/cmdline").replace("\0", " "))
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


def programs() -> list[int]:
    """Return the processes that a job has started or that hold the chips."""
    holding, _ = holders.holders()
    found = {each["pid"] for each in holding}
    names = os.listdir("/proc") if os.path.isdir("/proc/self") else []
    for pid in (int(name) for name in names if name.isdigit()):
        environ = read_proc_file(f"/proc/{pid}/environ").split("\0")
        if any(entry.startswith(MARK) for entry in environ):
            found.add(pid)
    return sorted(found - {os.getpid()})


def python_stacks(pid: int) -> str:
    """Return what py-spy reports about a process; empty without it, or where it may not look."""
    spy = shutil.which("py-spy")
    if spy is None:
        return ""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        argv = [spy, "dump", "--pid", str(pid)]
        told = subprocess.run(argv, capture_output=True, timeout=PYTHON_STACK_S, check=True)
        return told.stdout.decode(errors="replace")
    return ""


def main() -> int:
    """Print the threads of every program; return the exit code."""
    for pid in programs():
        sys.stdout.write(f"{process_stacks(pid)}{python_stacks(pid)}\n")
    sys.stdout.flush()
    return 0
