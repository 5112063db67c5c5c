"""Whether this process may load libtpu: the lock file of libtpu's loader, with its rules and words.

They are those of TryAcquireTpuLock in OpenXLA's xla/stream_executor/tpu/tpu_initialize_util.cc. The
lock lasts as long as the process; it is not inherited.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_WHOLE_HOST = ("", "2,2,1")
_FLOCK = struct.Struct("hhqqi4x")  # Linux, 64 bit: type, whence, start, length, pid


class NotLoadedError(Exception):
    """Why libtpu is not loaded; str() begins with the name of the status code."""


def acquire(path: str, environ: Mapping[str, str]) -> None:
    """Take the lock until the process ends, where the environment asks for it.

    Raises NotLoadedError.
    """
    override = environ.get("TPU_LOAD_LIBRARY")
    if override == "0":
        raise NotLoadedError("FAILED_PRECONDITION: TPU_LOAD_LIBRARY=0, not loading libtpu")
    if override != "1" and not _may_share(environ):
        _lock(path)


def _may_share(environ: Mapping[str, str]) -> bool:
    """Whether others may load libtpu at the same time: on request, or on other chips."""
    if _is_true(environ.get("ALLOW_MULTIPLE_LIBTPU_LOAD", "")):
        return True
    bounds = environ.get("TPU_CHIPS_PER_PROCESS_BOUNDS", "")
    return (bounds or environ.get("TPU_CHIPS_PER_HOST_BOUNDS", "")) not in _WHOLE_HOST


def _is_true(text: str) -> bool:
    try:
        return text == "true" or int(text) != 0
    except ValueError:
        return False


def _lock(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise NotLoadedError(
            "ABORTED: The TPU is already in use by another process probably owned by another user."
            f' Run "$ sudo lsof -w {_driver_file()}" to figure out which process is using the TPU.'
            f' If you still get this message, run "$ sudo rm {path}".'
        ) from error
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = _holder(descriptor)
        os.close(descriptor)
        raise NotLoadedError(_in_use(holder, path)) from error
    atexit.register(_remove, path, os.getpid())


def _in_use(holder: int, path: str) -> str:
    if holder:
        return (
            f"ABORTED: The TPU is already in use by process with pid {holder}. "
            "Not attempting to load libtpu.so in this process."
        )
    return (
        "ABORTED: Internal error when accessing libtpu multi-process lockfile. "
        f'Run "$ sudo rm {path}".'
    )


def _holder(descriptor: int) -> int:
    """The process that has the lock; 0 when it is not known."""
    if not sys.platform.startswith("linux"):
        return 0
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    with contextlib.suppress(OSError):
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
        return int(pid) if kind != fcntl.F_UNLCK else 0
    return 0


def _driver_file() -> str:
    return "/dev/accel0" if os.path.exists("/dev/accel0") else "/dev/vfio/0"


def _remove(path: str, owner: int) -> None:
    """The loader takes its file away when the process ends by itself; its children do not."""
    if os.getpid() == owner:
        with contextlib.suppress(OSError):
            os.unlink(path)
