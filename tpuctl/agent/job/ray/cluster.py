"""The stage `run` of a job with a Ray cluster: a host, and on worker 0 the driver. Python 3.8.

It leads the process group that the driver is in, and Ray's processes are in another: SIGTERM is for
the driver alone, which finds its cluster until it has ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

from tpuctl.agent.job.child import shell_argv
from tpuctl.agent.job.ray import meeting, ray_program, task_stacks
from tpuctl.agent.job.ray.meeting import LineReader, Meeting
from tpuctl.agent.job.ray.ray_node import BLOCK_BYTES, RayNode
from tpuctl.agent.job.selector import Selector
from tpuctl.agent.job.state import rundir

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

POLL_S = 1.0
PROGRESS_S = 10.0


class ClusterError(Exception):
    """There is no cluster, or none any more; str() is the reason."""


def run(directory: str) -> int:
    """Be a host of the cluster until the driver has ended; return or share its fate."""
    config = rundir.config(directory)
    host = Host(directory, config)
    try:
        status = host.lead() if config["worker_id"] == 0 else host.follow()
    except (ClusterError, OSError) as error:
        sys.stdout.write(host.node.last_lines())
        say(getattr(error, "strerror", None) or str(error))
        status = 1
    finally:
        host.end()
    if status < 0:  # the agent is to see how the driver ended
        with contextlib.suppress(OSError):  # SIGKILL has no other way
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


class Host:
    """One worker's part in the cluster."""

    def __init__(self, directory: str, config: dict[str, Any]) -> None:
        self.directory = directory
        self.config = config
        self.ray = config["ray"]
        self.name = f"{config['job']}-a{config['attempt']}"
        self.began = self.said = time.monotonic()
        self.is_told = False
        """Whether SIGTERM came."""
        self.is_over = False
        """Whether worker 0 has said that the driver has ended."""
        self.selector = Selector()
        self.selector.listen(self.note_signal, self.note_signal)
        # The driver gets it as well: the agent asks a run that hangs for its stacks.
        signal.signal(signal.SIGABRT, lambda *_: task_stacks.dump(directory))
        own, self.head = ray_program.own_and_head(self.ray["address"], self.ray["head"])
        self.node = RayNode(self.selector, directory, own)
        self.meeting: Meeting | None = None

    def note_signal(self) -> None:
        """Note SIGTERM: the driver has it too, a cluster that is not there yet is given up."""
        self.is_told = True

    # -------------------------------------------------------------- worker 0

    def lead(self) -> int:
        """Start the cluster's head, then the driver when every host has joined; its status."""
        port = ray_program.free_port()
        wants_dashboard = self.ray["dashboard"]
        dashboard = ray_program.free_port(ray_program.DASHBOARD_PORT) if wants_dashboard else None
        where = f"{self.node.address}:{port}"
        self.meeting = Meeting(self.selector, self.node.address, self.name, where)
        program = ray_program.find(self.node.directory) or "ray"
        self.node.start(ray_program.head_argv(program, port, dashboard))
        if not self.is_complete():
            return -signal.SIGTERM
        took_s = time.monotonic() - self.began
        hosts = f"{self.ray['hosts']} host{'s' if self.ray['hosts'] > 1 else ''}"
        say(f"{hosts} joined the cluster at {where} within {took_s:.1f} s")
        if dashboard:
            say(f"its dashboard is at port {dashboard} of worker 0: tpuctl node forward")
        return self.drive(where)

    def is_complete(self) -> bool:
        """Wait until every host has joined; False when told to end. Raises ClusterError."""
        wanted = set(range(1, self.ray["hosts"]))
        while not (self.node.has_started and self.has_joined(wanted)):
            if self.is_told:
                return False
            if self.node.has_ended():
                raise ClusterError("it does not start on this worker")
            self.check_time(wanted)
            self.selector.wait(POLL_S, BLOCK_BYTES)
            self.say_progress()
        return not self.is_told

    def say_progress(self) -> None:
        """Print at times how many hosts have joined: a run that prints nothing may hang."""
        now = time.monotonic()
        if self.meeting is not None and now - self.said >= PROGRESS_S:
            self.said = now
            count = len(self.meeting.joined) + self.node.has_started
            say(f"{count} of {self.ray['hosts']} hosts have joined the cluster")

    def has_joined(self, wanted: set[int]) -> bool:
        """Whether these workers have."""
        return self.meeting is not None and wanted <= self.meeting.joined

    def check_time(self, wanted: set[int]) -> None:
        """Raise ClusterError when the hosts have had their time."""
        limit_s = self.ray["join_s"]
        if time.monotonic() - self.began < limit_s:
            return
        joined = self.meeting.joined if self.meeting else set()
        late = sorted(wanted - joined) if self.node.has_started else [0]
        who = ", ".join(map(str, late))
        raise ClusterError(f"not in the cluster within {limit_s:g} s: worker {who}")

    def drive(self, where: str) -> int:
        """Run the user's lines to their end; raises ClusterError when Ray ends before."""
        driver = subprocess.Popen(
            shell_argv(self.config["run"], self.config.get("shell") or ()),
            env={**os.environ, "RAY_ADDRESS": where},
            stdin=subprocess.DEVNULL,
        )
        while driver.poll() is None:
            if self.node.has_ended():
                raise ClusterError("it ended on this worker before the program ended")
            self.selector.wait(POLL_S, BLOCK_BYTES)
        return driver.returncode

    # -------------------------------------------------------------- the others

    def follow(self) -> int:
        """Join the cluster of worker 0, and leave it when its driver has ended."""
        found = self.look_for_head()
        if found is None:
            return -signal.SIGTERM
        connection, where = found
        self.selector.watch(connection.fileno(), LineReader(self.hear).feed)
        self.node.start([f"--address={where}"])
        has_told = False
        while not self.is_over:
            self.check_host(connection)
            if self.node.has_started and not has_told:
                has_told = True
                meeting.send(connection, {"joined": self.config["worker_id"]})
            self.selector.wait(POLL_S, BLOCK_BYTES)
        return 0

    def look_for_head(self) -> tuple[socket.socket, str] | None:
        """Find worker 0 while there is time; None when told to end. Raises ClusterError."""
        while not self.is_told:
            found = meeting.find(self.head, self.name)
            if found is not None:
                return found
            if time.monotonic() - self.began > self.ray["join_s"]:
                raise ClusterError(f"worker 0 was not found at {self.head}")
            self.selector.wait(meeting.PAUSE_S, BLOCK_BYTES)
        return None

    def hear(self, message: dict[str, Any]) -> None:
        """Take what worker 0 says."""
        self.is_over = self.is_over or bool(message.get("ended"))

    def check_host(self, connection: socket.socket) -> None:
        """Raise ClusterError when this host, or worker 0, is in the cluster no more."""
        if self.node.has_ended():
            verb = "has ended" if self.node.has_started else "does not start"
            raise ClusterError(f"it {verb} on this worker")
        if all(key.fd != connection.fileno() for key in self.selector.watched()):
            raise ClusterError("worker 0 is gone, and the cluster with it")

    def end(self) -> None:
        """End Ray here, and tell the others to."""
        if self.meeting is not None:
            self.meeting.end()
        self.node.end()


def say(text: str) -> None:
    """Print a line into the job's log."""
    sys.stdout.write(f"tpuctl: Ray: {text}\n")
    sys.stdout.flush()
