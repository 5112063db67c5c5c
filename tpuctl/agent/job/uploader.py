"""Sends the log to the bucket in segments, named by the offset of their first byte. Python 3.8."""

from __future__ import annotations

import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tpuctl.agent.job.log_files import LogFiles
    from tpuctl.agent.job.objects import Objects

SEGMENT_BYTES = 256 * 1024 * 1024
SEGMENT_EVERY_S = 15.0
PATIENCE_S = 20.0
"""For how long nothing may get through at the end."""
PAUSE_S = 0.5


class Uploader(threading.Thread):
    """A segment every 15 s; at the end whatever is left."""

    def __init__(self, objects: Objects, prefix: str, files: LogFiles) -> None:
        super().__init__(daemon=True)
        self.objects = objects
        self.prefix = prefix
        self.files = files
        self.ending = threading.Event()

    def run(self) -> None:
        """Until everything is there, or does not get through at the end."""
        while not self.ending.wait(SEGMENT_EVERY_S):
            self.segment()
        deadline = time.monotonic() + PATIENCE_S
        while self.files.safe_bytes < self.files.size_bytes and time.monotonic() < deadline:
            if self.segment():
                deadline = time.monotonic() + PATIENCE_S
            else:
                time.sleep(PAUSE_S)

    def segment(self) -> bool:
        """Send one segment; False when it could not be sent."""
        span = self.files.next_span(SEGMENT_BYTES)
        if span is None:
            return True
        key = f"{self.prefix}/{span.start:012d}"
        try:
            if self.objects.create(key, self.files.blocks(span), span.size_bytes):
                self.files.uploaded(span.end)
            else:  # an answer was lost, or a supervisor has saved what it had heard
                size_bytes = self.objects.size_bytes(key)
                same = size_bytes == span.size_bytes
                self.files.uploaded(span.end if same else span.start + max(1, size_bytes))
        except OSError:
            self.files.kept()
            return False
        return True


def stored(objects: Objects, key: str, data: bytes, patience_s: float) -> bool:
    """Create a small object, with tries for so long; True when it is there."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            objects.create(key, iter([data]), len(data))
            return True
        except OSError:
            if time.monotonic() > deadline:
                return False
        time.sleep(PAUSE_S)
