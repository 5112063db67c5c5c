"""Sends the log to the bucket in segments, named by the offset of their first byte. Python 3.8."""

from __future__ import annotations

import threading
import time

from tpuctl.agent.job.logs.fork_call import call_in_fork
from tpuctl.retry_after import pause_asked_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tpuctl.agent.job.logs.log_files import LogFiles, LogPart
    from tpuctl.agent.job.objects import ObjectClient

SEGMENT_BYTES = 256 * 1024 * 1024
SEGMENT_EVERY_S = 15.0
PATIENCE_S = 20.0
"""How long the end waits while nothing gets through."""
PAUSE_S = 0.5


class Uploader(threading.Thread):
    """Uploads a segment every 15 s, and the rest at the end."""

    def __init__(self, objects: Callable[[], ObjectClient], prefix: str, files: LogFiles) -> None:
        super().__init__(daemon=True)
        self.objects = objects
        self.prefix = prefix
        self.files = files
        self.ending = threading.Event()

    def run(self) -> None:
        """Upload until `finish` is called, then the rest."""
        while not self.ending.wait(SEGMENT_EVERY_S):
            self.segment(is_apart=True)
        self.send_rest()

    def finish(self) -> None:
        """Send the rest; return when it is sent or PATIENCE_S passed without success."""
        self.ending.set()
        if self.ident is None:  # there was no thread to spare
            self.send_rest()
        else:
            self.join()

    def send_rest(self) -> None:
        """Send the rest, as long as a segment gets through every PATIENCE_S seconds."""
        deadline = time.monotonic() + PATIENCE_S
        while self.files.safe_bytes < self.files.size_bytes and time.monotonic() < deadline:
            if self.segment():
                deadline = time.monotonic() + PATIENCE_S
            else:
                time.sleep(PAUSE_S)

    def segment(self, *, is_apart: bool = False) -> bool:
        """Send one segment; False when it could not be sent.

        Apart, a fork sends it, so that the agent, which may run for weeks, keeps its memory small.
        """
        span = self.files.next_span(SEGMENT_BYTES)
        if span is None:
            return True
        blocks = self.files.blocks(span)
        try:
            if is_apart:
                self.files.mark_uploaded(call_in_fork(lambda: self.store_segment(span, blocks)))
            else:
                self.files.mark_uploaded(self.store_segment(span, blocks))
        except OSError:
            self.files.release_span()
            return False
        return True

    def store_segment(self, span: LogPart, blocks: Iterator[bytes]) -> int:
        """Send a span; return the offset up to which the bucket has the log. Raises OSError."""
        key, objects = f"{self.prefix}/{span.start:012d}", self.objects()
        if objects.create(key, blocks, span.size_bytes):
            return span.end
        # An answer was lost, or a supervisor has saved what it had heard.
        size_bytes = objects.size_bytes(key)
        return span.end if size_bytes == span.size_bytes else span.start + max(1, size_bytes)


def store_object(objects: ObjectClient, key: str, data: bytes, patience_s: float) -> bool:
    """Create a small object, trying for `patience_s`; return whether the bucket has it."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            objects.create(key, iter([data]), len(data))
            return True
        except OSError as error:
            asked_s = pause_asked_by(error)
            if time.monotonic() + asked_s > deadline:
                return False
        time.sleep(asked_s + PAUSE_S)
