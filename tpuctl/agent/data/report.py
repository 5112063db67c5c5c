"""How what is shipped to a worker tells how it goes: JSON lines on standard output.

Standard library only, Python 3.8.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Iterator
from typing import Any

REPORT_S = 0.25
OUTPUT_LOCK = threading.Lock()


def print_event(**event: Any) -> None:
    """Print one JSON line; threads do not mix theirs."""
    with OUTPUT_LOCK:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


class ProgressReport:
    """JSON lines on standard output: failures as they come, bytes now and then."""

    def __init__(self) -> None:
        self.fetched = self.fetched_bytes = self.received_bytes = self.skipped = self.failed = 0
        self.lock = threading.Lock()
        self.over = threading.Event()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Print the progress every REPORT_S seconds in the meantime."""
        teller = threading.Thread(target=self.tell, daemon=True)
        teller.start()
        try:
            yield
        finally:
            self.over.set()
            teller.join()

    def tell(self) -> None:
        """Print bytes and objects so far whenever they have changed."""
        told = 0, 0
        while not self.over.wait(REPORT_S):
            if self.far() != told:
                told = self.far()
                print_event(received_bytes=told[0], objects=told[1])

    def far(self) -> tuple[int, int]:
        """Bytes received, and objects that are done with."""
        return self.received_bytes, self.fetched + self.skipped + self.failed

    def received(self, size_bytes: int) -> None:
        """Count bytes as they come."""
        with self.lock:
            self.received_bytes += size_bytes

    def done(self, size_bytes: int, *, is_current: bool) -> None:
        """Count one object that is there now."""
        with self.lock:
            self.skipped += is_current
            self.fetched += not is_current
            self.fetched_bytes += 0 if is_current else size_bytes
            self.received_bytes += size_bytes if is_current else 0

    def refuse(self, path: str, why: str) -> None:
        """Count and print an object that could not be had."""
        with self.lock:
            self.failed += 1
        print_event(failed=path, why=why)

    def end(self) -> None:
        """Print the totals."""
        received_bytes, objects = self.far()
        print_event(
            received_bytes=received_bytes,
            objects=objects,
            fetched=self.fetched,
            fetched_bytes=self.fetched_bytes,
            skipped=self.skipped,
            failures=self.failed,
        )
