"""Writes a small file that may be lost, for its owner alone."""

import os
from pathlib import Path

from tpuctl.durable_directories import make_private


def replace_file(path: Path, data: bytes) -> None:
    """Write the file at once: the old one or the new one is read, and nothing waits for the disk.

    Raises OSError.
    """
    make_private(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
