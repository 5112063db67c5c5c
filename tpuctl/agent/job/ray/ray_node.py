"""The processes of Ray on one worker, from their start to their end. Python 3.8."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time

from tpuctl.agent.job.ray import ray_program
from tpuctl.agent.job.selector import Selector
from tpuctl.agent.job.state import processes

LINK = "ray"
"""In the directory of the run: leads to what Ray keeps there."""
TEMPORARY = "/tmp"
"""Not TMPDIR: the path of a socket is at most 107 bytes, and Ray adds 70."""
SHOWN_LINES = 12
KEPT_BYTES = 8192
BLOCK_BYTES = 65536
DYING_S = 5.0


class RayNode:
    """`ray start --block`, in a session of its own: signals to the run's group are not for it."""

    def __init__(self, selector: Selector, directory: str, address: str) -> None:
        self.selector = selector
        self.directory = directory
        self.address = address
        self.printed = b""
        self.has_started = False
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, options: list[str]) -> None:
        """Start it, head or host; raises OSError."""
        program = ray_program.find(self.directory) or "ray"
        temporary = tempfile.mkdtemp(prefix="ray-", dir=TEMPORARY)
        os.symlink(temporary, os.path.join(self.directory, LINK))
        self.process = subprocess.Popen(
            ray_program.start_argv(program, self.address, temporary, options),
            env=ray_program.start_environment(os.environ),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True, bufsize=0,
        )  # fmt: skip
        if self.process.stdout is not None:
            self.selector.watch(self.process.stdout.fileno(), self.hear)

    def hear(self, block: bytes) -> None:
        """Take what it prints: the end is kept, and that it has joined its cluster."""
        self.printed += block
        self.has_started = self.has_started or ray_program.STARTED in self.printed
        self.printed = self.printed[-KEPT_BYTES:]

    def has_ended(self) -> bool:
        """Whether it was started and runs no more."""
        return self.process is not None and self.process.poll() is not None

    def last_lines(self) -> str:
        """Return the end of what it printed."""
        lines = self.printed.decode("utf-8", "replace").splitlines()
        return "".join(f"{line}\n" for line in lines[-SHOWN_LINES:] if line.strip())

    def end(self) -> None:
        """Let it end its processes, and kill what is left after DYING_S."""
        if self.process is None:
            return
        group, deadline = self.process.pid, time.monotonic() + DYING_S
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        while self.process.poll() is None and time.monotonic() < deadline:
            self.selector.wait(deadline - time.monotonic(), BLOCK_BYTES)
        processes.signal_group(group, signal.SIGKILL)
        self.process.wait()
