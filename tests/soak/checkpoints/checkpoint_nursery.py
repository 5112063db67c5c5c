"""Where the programs of the checkpoint tests are born: a process that has loaded all they need.

Reads a command a line, and answers with a line: {"start": [spec, ...]} starts a process for each,
{"wait": [pid, ...]} tells how each has ended, or that it stands still ("stopped").
"""

import importlib
import json
import os
import pkgutil
import signal
import sys
import time
import traceback
from contextlib import suppress
from typing import Any

import google.cloud.storage  # noqa: F401 (takes a second, once)

import tpuctl.checkpoint
import tpuctl.store
from soak.checkpoints.checkpoint_program import run

HUNG_S = 180.0
LOOK_AGAIN_S = 0.002


def main() -> None:
    for package in (tpuctl.store, tpuctl.checkpoint):
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
    for line in sys.stdin:
        command = json.loads(line)
        answer = [start(spec) for spec in command.get("start", ())] or wait(command.get("wait", ()))
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def start(spec: dict[str, Any]) -> int:
    """A process of its own that does what the spec says."""
    pid = os.fork()
    if pid:
        return pid
    os.setpgid(0, 0)
    try:
        run(spec)
        os._exit(0)
    except BaseException:  # noqa: BLE001 (nobody else tells of it)
        traceback.print_exc()
    os._exit(1)


def wait(pids: list[int]) -> list[int | str]:
    """Status, negative number of a signal, "stopped", or "hung" for who had to be killed."""
    found: dict[int, int | str] = {}
    deadline_s = time.monotonic() + HUNG_S
    while len(found) < len(pids):
        for pid in pids:
            if pid in found:
                continue
            ended, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            if ended:
                found[pid] = (
                    "stopped" if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)
                )
            elif time.monotonic() > deadline_s:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                found[pid] = "hung"
        time.sleep(LOOK_AGAIN_S)
    return [found[pid] for pid in pids]


if __name__ == "__main__":
    main()
