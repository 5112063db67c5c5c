"""Directories whose names survive a power loss: `fsync` of a file keeps its bytes, not its name."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def make_durable(directory: Path, mode: int = 0o777) -> None:
    """Make a directory and those above it, and sync the entry of each new one; raises OSError."""
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode, exist_ok=True)
        sync_directory(each.parent)


def make_private(directory: Path) -> None:
    """Make a directory and those above it, which their owner alone may enter; raises OSError.

    One of ours that others may enter is closed to them, but not HOME nor a shared one like /tmp.
    """
    make_durable(directory, 0o700)
    found = directory.stat()
    is_ours = found.st_uid == os.geteuid() and not found.st_mode & stat.S_ISVTX
    if found.st_mode & 0o077 and is_ours and directory != Path(os.environ.get("HOME", "/")):
        directory.chmod(0o700)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable; raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
