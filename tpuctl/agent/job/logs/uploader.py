"""Sends the log to the bucket in segments, named by the offset of their first byte. Python 3.8."""

from __future__ import annotations

import threading
import time

from tpuctl.agent.job.logs.fork_call import call_in_fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tpuctl.agent.job.cloud.objects import ObjectClient
    from tpuctl.agent.job.logs.log_files import LogFiles, UploadSpan

SEGMENT_BYTES = 256 * 1024 * 1024
SEGMENT_EVERY_S = 15.0
PATIENCE_S = 20.0
"""For how long nothing may get through at the end."""
PAUSE_S = 0.5


class Uploader(threading.Thread):
    """A segment every 15 s; at the end whatever is left."""

    def __init__(self, objects: Callable[[], ObjectClient], prefix: str, files: LogFiles) -> None:
        super().__init__(daemon=True)
        self.objects = objects
        self.prefix = prefix
        self.files = files
        self.ending = threading.Event()

    def run(self) -> None:
        """Until the end."""
        while not self.ending.wait(SEGMENT_EVERY_S):
            self.segment(is_apart=True)
        self.send_rest()

    def finish(self) -> None:
        """Send what is left, and wait for that."""
        self.ending.set()
        if self.ident is None:  # there was no thread to spare
            self.send_rest()
        else:
            self.join()

    def send_rest(self) -> None:
        """Everything, as long as something gets through now and then."""
        deadline = time.monotonic() + PATIENCE_S
        while self.files.safe_bytes < self.files.size_bytes and time.monotonic() < deadline:
            if self.segment():
                deadline = time.monotonic() + PATIENCE_S
            else:
                time.sleep(PAUSE_S)

    def segment(self, *, is_apart: bool = False) -> bool:
        """Send one segment; False when it could not be sent.

        Apart, it leaves nothing in an agent that may go on for weeks.
        """
        span = self.files.next_span(SEGMENT_BYTES)
        if span is None:
            return True
        blocks = self.files.blocks(span)
        try:
            if is_apart:
                self.files.uploaded(call_in_fork(lambda: self.sent(span, blocks)))
            else:
                self.files.uploaded(self.sent(span, blocks))
        except OSError:
            self.files.kept()
            return False
        return True

    def sent(self, span: UploadSpan, blocks: Iterator[bytes]) -> int:
        """Send it; the offset up to which the log is in the bucket then. Raises OSError."""
        key, objects = f"{self.prefix}/{span.start:012d}", self.objects()
        if objects.create(key, blocks, span.size_bytes):
            return span.end
        # An answer was lost, or a supervisor has saved what it had heard.
        size_bytes = objects.size_bytes(key)
        return span.end if size_bytes == span.size_bytes else span.start + max(1, size_bytes)


def store_object(objects: ObjectClient, key: str, data: bytes, patience_s: float) -> bool:
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
