"""Prints the status of a run, or streams its status and log. Python 3.8."""

from __future__ import annotations

import json
import os
import sys
import time

from tpuctl.agent.job.state import rundir
from tpuctl.agent.job.state.status_file import PROTOCOL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tpuctl.agent.job.state.news_pipe import NewsPipe

POLL_S = 0.05
LOOK_S = 0.5
"""In between only a file that grew, or a new status, is looked at."""
KEEPALIVE_S = 2.0
BLOCK_BYTES = 256 * 1024


def show(directory: str) -> int:
    """Print the status as one JSON line; return 1 when there is no such run."""
    status = rundir.known_status(directory)
    if status is None:
        return 1
    sys.stdout.write(json.dumps({**status, "alive": rundir.is_alive(directory)}) + "\n")
    return 0


def watch(directory: str, offset: int | None, news: NewsPipe | None = None) -> int:
    """Stream until the run is over, the log from `offset` bytes on; return an exit code.

    Without an offset, from what is not in the bucket yet. The files are looked at all the time,
    or, with `news`, when the agent has written something. 1: no such run; 75: the agent is stuck.
    """
    if not rundir.is_alive(directory) and rundir.known_status(directory) is None:
        return 1
    return StatusStream(directory, offset, news).main()


class StatusStream:
    """Streams a run's log and status to the other end of an SSH connection."""

    def __init__(self, directory: str, offset: int | None, news: NewsPipe | None = None) -> None:
        self.directory = directory
        self.log = os.path.join(directory, "log")
        self.news = news
        self.offset = offset
        self.status: dict[str, Any] = {}
        self.version: object = None
        self.sent: dict[str, Any] = {}
        self.sent_at = 0.0
        self.newest: tuple[str, int] | None = None
        """Path of the log's last file, and its size when all of it was sent."""
        self.listed: int | None = None
        """When the log's directory had changed, before it was listed last."""

    def main(self) -> int:
        """Stream until the run is over and everything was sent, or nobody reads any more.

        Returns 0, or 75 when the agent is stuck: a keepalive would say that all is well.
        """
        look_at = 0.0
        is_greeted = False
        while True:
            is_thorough = time.monotonic() >= look_at
            if is_thorough:
                look_at = time.monotonic() + LOOK_S
                if self.is_stuck():
                    sys.stderr.write(f"the agent has done nothing for {rundir.STUCK_S:.0f} s\n")
                    return rundir.UNREACHED
            if not is_greeted:
                self.send({"protocol": PROTOCOL})
                is_greeted = True
            if self.is_over(is_thorough=is_thorough):
                return 0
            if time.monotonic() - self.sent_at > KEEPALIVE_S:
                self.send({})  # fails when nobody reads any more
            if not self.wait(look_at):
                look_at = 0.0  # the agent is gone, or another process is it

    def wait(self, look_at: float) -> bool:
        """Wait until something may be new; return whether the next look need not be thorough.

        At most one look each POLL_S: a program may print all the time.
        """
        time.sleep(POLL_S)
        if self.news is None or self.news.wait(max(0.0, look_at - time.monotonic())):
            return True
        self.news = None
        return False

    def is_stuck(self) -> bool:
        """Whether the agent lives and has not written its status for STUCK_S seconds."""
        status = self.status or rundir.known_status(self.directory) or {}
        return rundir.is_stuck(self.directory, status) and rundir.is_alive(self.directory)

    def is_over(self, *, is_thorough: bool) -> bool:
        """Send what is new; return whether nothing more will come."""
        # In this order the log that is sent never lags behind the status that follows it.
        is_alive = not is_thorough or rundir.is_alive(self.directory)
        is_news = self.has_new_status()
        if is_thorough or is_news or self.has_grown():
            self.send_log()
        if self.status != self.sent:
            self.send({"status": self.status})
            self.sent = self.status
        is_closed = bool(self.status.get("closed"))
        if is_closed or not is_alive:
            self.send({"gone": not is_closed})
        return is_closed or not is_alive

    def has_new_status(self) -> bool:
        """Read the status if its file has changed; return whether it has."""
        try:
            found = os.stat(os.path.join(self.directory, "status.json"))
            version = found.st_ino, found.st_mtime_ns
            if version == self.version:
                return False
            self.status = rundir.read_status(self.directory) or {}
            self.version = version
        except (FileNotFoundError, ValueError):
            return False  # it is being written on a full disk
        return True

    def has_grown(self) -> bool:
        """Whether the log's last file has changed; a newer one is found by a thorough look."""
        try:
            if self.newest is None:
                return os.stat(self.log).st_mtime_ns != self.listed
            path, size_bytes = self.newest
            return os.stat(path).st_size != size_bytes
        except FileNotFoundError:
            return True

    def send_log(self) -> None:
        """Send the log from the offset on; the first time by default from what is not uploaded."""
        if self.offset is None:
            self.offset = int(self.status.get("uploaded_bytes", 0))
        while True:
            block = self.next_block(self.offset)
            if not block:
                return
            self.send({"offset": self.offset, **encode_block(block)})
            self.offset += len(block)

    def next_block(self, offset: int) -> bytes:
        """Return bytes of the log at an offset, or move it to the next one on the disk."""
        self.newest = None
        try:
            self.listed = os.stat(self.log).st_mtime_ns
            starts = sorted(int(name) for name in os.listdir(self.log))
            earlier = [start for start in starts if start <= offset][-1:]
            for start in [*earlier, *(start for start in starts if start > offset)]:
                path = os.path.join(self.log, f"{start:012d}")
                with open(path, "rb", buffering=0) as file:
                    file.seek(max(0, offset - start))
                    block = file.read(BLOCK_BYTES)
                if block:
                    self.offset = max(offset, start)
                    return block
                self.newest = path, offset - start
        except FileNotFoundError:
            pass  # removed meanwhile: the next time finds what is there then
        return b""

    def send(self, message: Mapping[str, Any]) -> None:
        """Write a message as one JSON line."""
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
        self.sent_at = time.monotonic()


def encode_block(block: bytes) -> dict[str, str]:
    """Return {"log": TEXT}, or {"log64": BASE64} for bytes that are not UTF-8."""
    try:
        return {"log": block.decode("utf-8")}
    except UnicodeDecodeError:
        import base64

        return {"log64": base64.b64encode(block).decode("ascii")}
