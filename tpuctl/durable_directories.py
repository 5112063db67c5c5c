"""Directories whose names survive a power loss: `fsync` of a file keeps its bytes, not its name."""

from __future__ import annotations

import os
from pathlib import Path


def make_durable(directory: Path, mode: int = 0o777) -> None:
    """Make a directory and those above it, and sync the entry of each new one; raises OSError."""
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode, exist_ok=True)
        sync_directory(each.parent)


def make_private(directory: Path) -> None:
    """Make a directory and those above it, which their owner alone may enter; raises OSError."""
    make_durable(directory, 0o700)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable; raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
