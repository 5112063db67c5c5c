"""Writes DIR/status.json, on a full disk too. Python 3.8."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PROTOCOL = 2
RESERVE = "reserve"
RESERVE_BYTES = 256 * 1024
ROOM_BYTES = 4096
"""The size of the smallest status file, so that a later status fits into its place."""
LONG = ("last_lines", "traceback", "metrics", "sample")


class StatusFile:
    """The status of a run; a reserve on the disk lets the last one be written when it is full."""

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, "status.json")
        self.reserve = os.path.join(directory, RESERVE)
        self.written: Mapping[str, Any] = {}
        self.written_at = 0.0
        self.descriptor: int | None = None
        """The open file that has the name now."""
        with contextlib.suppress(OSError), open(self.reserve, "wb") as file:
            file.write(b"\0" * RESERVE_BYTES)

    @property
    def age_s(self) -> float:
        """Seconds since it was written."""
        return time.monotonic() - self.written_at

    def write(self, values: Mapping[str, Any], document: Mapping[str, Any]) -> None:
        """Write the document, and remember the values it shows; on a full disk what fits."""
        self.written, self.written_at = dict(values), time.monotonic()
        text = json.dumps(document).ljust(ROOM_BYTES).encode()
        try:
            self.renew(text)
        except OSError:
            self.free()
            with contextlib.suppress(OSError):
                self.write_anyway(text, document)

    def renew(self, text: bytes) -> None:
        """Write another file and give it the name. Raises OSError."""
        new = f"{self.path}.new"
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            if os.write(descriptor, text) < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.replace(new, self.path)
        except OSError:
            os.close(descriptor)
            raise
        if self.descriptor is not None:
            os.close(self.descriptor)
        self.descriptor = descriptor

    def write_anyway(self, text: bytes, document: Mapping[str, Any]) -> None:
        """Write in the room of the reserve, else over the old content without LONG; OSError."""
        with contextlib.suppress(OSError):
            self.renew(text)
            return
        if self.descriptor is None:
            return
        room_bytes = os.fstat(self.descriptor).st_size
        if len(text) > room_bytes:
            short = {key: value for key, value in document.items() if key not in LONG}
            text = json.dumps(short).encode()
        os.pwrite(self.descriptor, text.ljust(room_bytes), 0)

    def free(self) -> None:
        """Remove the reserve."""
        with contextlib.suppress(OSError):
            os.unlink(self.reserve)
