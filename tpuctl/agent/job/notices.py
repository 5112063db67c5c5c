"""Waits for what the metadata server announces: preemption and maintenance. Python 3.8."""

from __future__ import annotations

import contextlib
import http.client
import os
import threading
import time
from urllib.parse import urlencode

from tpuctl.agent import bucket as cloud

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_S = 300.0
PATIENCE_S = 20.0
"""Beyond the time that the server was asked to wait."""
PAUSE_S = 10.0
SHORT_S = 1.0


class Notice(threading.Thread):
    """One value of the metadata server; `changed` gets each that is new, the first as well."""

    def __init__(self, path: str, changed: Callable[[str], None]) -> None:
        super().__init__(daemon=True)
        self.path = path
        self.changed = changed
        self.seen = ""
        self.etag = ""

    def run(self) -> None:
        """For as long as the process lives."""
        host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
        connection = cloud.connect(f"http://{host}", WAIT_S + PATIENCE_S)
        while True:
            began = time.monotonic()
            is_news = False
            try:
                is_news = self.ask(connection)
            except (OSError, http.client.HTTPException):
                connection.close()
            if not is_news and time.monotonic() - began < SHORT_S:
                time.sleep(PAUSE_S)  # no such server, or one that does not wait

    def ask(self, connection: http.client.HTTPConnection) -> bool:
        """Wait for a change; True when there was one. Raises OSError, HTTPException."""
        query = {"wait_for_change": "true", "timeout_sec": str(int(WAIT_S)), "last_etag": self.etag}
        path = f"/computeMetadata/v1/{self.path}?{urlencode(query if self.etag else {})}"
        connection.request("GET", path, headers={"Metadata-Flavor": "Google"})
        with connection.getresponse() as reply:
            text = reply.read().decode("utf-8", "replace").strip()
            if reply.status != 200:
                return False
            self.etag = reply.headers.get("ETag", "")
        if text == self.seen:
            return False
        self.seen = text
        self.changed(text)
        return True


def quietly(notice: Notice) -> None:
    """Start it; a worker that has no thread to spare goes without."""
    with contextlib.suppress(RuntimeError):
        notice.start()
