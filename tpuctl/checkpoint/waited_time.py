"""Tells the agent of a job how long the program waits for its checkpoints."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

SAVING_FILE = "TPUCTL_SAVING_FILE"
"""The variable that names the file to which the seconds of each wait are appended, a line each."""
LEAST_S = 0.001
"""What is less is not told: it is the call itself, of a step that is not saved."""


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """Append the time in the body to the file; nothing where there is none, or it cannot be."""
    began_s = time.monotonic()
    try:
        yield
    finally:
        waited_s = time.monotonic() - began_s
        path = os.environ.get(SAVING_FILE)
        if path and waited_s >= LEAST_S:
            with contextlib.suppress(OSError):
                _append(path, f"{waited_s:.3f}\n".encode())


def _append(path: str, line: bytes) -> None:
    """Raises OSError."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
