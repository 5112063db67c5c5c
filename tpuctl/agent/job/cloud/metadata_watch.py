"""Waits for changes of a metadata value: preemption, maintenance. Python 3.8."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from tpuctl.agent.data import metadata_server

WAIT_S = 300.0
PATIENCE_S = 20.0
"""Beyond the time that the server was asked to wait."""
PAUSE_S = 10.0
SHORT_S = 1.0


class MetadataWatch(threading.Thread):
    """Calls `changed` with each new value of a metadata path, the first included."""

    def __init__(self, path: str, changed: Callable[[str], None]) -> None:
        super().__init__(daemon=True)
        self.path = path
        self.changed = changed
        self.seen = ""
        self.etag = ""

    def run(self) -> None:
        """Ask again and again for as long as the process lives."""
        while True:
            began = time.monotonic()
            is_news = False
            with contextlib.suppress(OSError, ValueError, IndexError):
                is_news = self.ask()
            if not is_news and time.monotonic() - began < SHORT_S:
                time.sleep(PAUSE_S)  # no such server, or one that does not wait

    def ask(self) -> bool:
        """Wait for a change (wait_for_change of the metadata server); return whether there was one.

        Raises as `metadata_server.ask` does.
        """
        query = f"?wait_for_change=true&timeout_sec={WAIT_S:.0f}&last_etag={self.etag}"
        answer = metadata_server.ask(
            f"{self.path}{query if self.etag else ''}", WAIT_S + PATIENCE_S
        )
        if answer.status != 200:
            return False
        self.etag = answer.etag
        if answer.text == self.seen:
            return False
        self.seen = answer.text
        self.changed(answer.text)
        return True


def try_start(thread: threading.Thread) -> None:
    """Start a thread, unless the worker has none to spare."""
    with contextlib.suppress(RuntimeError):
        thread.start()
