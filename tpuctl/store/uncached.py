"""Writes much memory to a file past the page cache, where the system can.

The page cache costs several times the processor time (a page to find, fill, track and write back
for every 4 KiB), which a program that trains meanwhile would miss, and what that program reads
would be pushed out of it.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Iterable

_BUFFER_BYTES = 4 * 1024 * 1024
_SECTOR_BYTES = 4096
"""A direct write begins and ends where a sector does; no disk here has larger ones."""
_DIRECT = getattr(os, "O_DIRECT", 0)


def write_uncached(descriptor: int, pieces: Iterable[memoryview]) -> None:
    """Write pieces from the beginning of an empty file on, through memory that is aligned."""
    import numpy as np  # whoever has so much memory to write has imported it

    aside = np.frombuffer(mmap.mmap(-1, _BUFFER_BYTES), np.uint8)
    size_bytes = used = 0
    _set_direct(descriptor, _DIRECT)
    for piece in pieces:
        data = np.frombuffer(piece, np.uint8)
        size_bytes += data.size
        while data.size:
            taken = min(data.size, _BUFFER_BYTES - used)
            np.copyto(aside[used : used + taken], data[:taken])  # others may run meanwhile
            data, used = data[taken:], used + taken
            if used == _BUFFER_BYTES:
                _write(descriptor, aside.data)
                used = 0
    _write(descriptor, aside[: -(-used // _SECTOR_BYTES) * _SECTOR_BYTES].data)
    os.ftruncate(descriptor, size_bytes)


def _write(descriptor: int, data: memoryview) -> None:
    while data.nbytes:
        try:
            data = data[os.write(descriptor, data) :]
        except OSError as error:
            if error.errno != errno.EINVAL or not _set_direct(descriptor, 0):
                raise


def _set_direct(descriptor: int, flag: int) -> bool:
    """Set or clear O_DIRECT; returns whether that changed it. Some file systems refuse it."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    wanted = flags & ~_DIRECT | flag
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, wanted)
    except OSError:
        return False
    return wanted != flags
