"""Work in a process of its own, which takes its memory and its imports with it. Python 3.8."""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Callable

MOST_DESCRIPTORS = 4096
LONGEST_S = 600.0
"""A fork of a process with threads may never get on: it is killed then."""


def call_in_fork(work: Callable[[], int]) -> int:
    """Run `work` in a fork and return its result; raises OSError when it does or is killed.

    It must not need a lock that another thread may hold.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        _call_and_exit(work, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        if not select.select([pipe], [], [], LONGEST_S)[0]:
            os.kill(pid, signal.SIGKILL)
        told = pipe.read()
    os.waitpid(pid, 0)
    result = json.loads(told) if told else "it was killed"
    if not isinstance(result, int):
        raise OSError(result)
    return result


def _call_and_exit(work: Callable[[], int], writer: int) -> None:
    """Do the work with no descriptor of the agent open, its lock above all; never returns."""
    told: int | str = "it failed"
    try:
        signal.set_wakeup_fd(-1)
        os.closerange(3, writer)
        os.closerange(writer + 1, MOST_DESCRIPTORS)
        told = work()
    except OSError as error:
        told = str(error)
    finally:
        os.write(writer, json.dumps(told).encode())
        os._exit(0)
