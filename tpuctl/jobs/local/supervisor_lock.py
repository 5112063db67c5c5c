"""One supervisor per context and machine: a lock that dies with its holder.

The locked file's first line is the host id, a lasting name of this machine for the context; the
second, true only while the lock is held, is its holder's process.
"""

import fcntl
import os
import secrets
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tpuctl.durable_directories import make_private
from tpuctl.errors import DeadlineError, LocalIOError, LockedError
from tpuctl.file_lock import try_lock

PROBE_S = 0.2
"""Somebody who only asks whether the lock is taken holds it for much less."""
KILL_WAIT_S = 2.0
SUFFIXES = ("lock", "log", "poke", "jobs", "sock", "notify-commands")
POLL_S = 0.02


@contextmanager
def hold(home: Path, context: str) -> Iterator[str]:
    """Hold the lock of a context; yields the host id. Raises LockedError, LocalIOError."""
    with _open_lock_file(home, context) as file:
        if not _acquire_lock(file):
            raise LockedError(
                f"a supervisor of context {context!r} runs on this machine already",
                hint=f"see {log_path(home, context)}",
            )
        name = _lines(file)[0] or secrets.token_hex(6)
        _write(file, f"{name}\n{os.getpid()}\n")
        try:
            yield name
        finally:
            _write(file, f"{name}\n")


def is_locked(home: Path, context: str) -> bool:
    """Whether a supervisor of the context runs on this machine."""
    with _open_lock_file(home, context) as file:
        return _is_held(file)


def host_id(home: Path, context: str) -> str | None:
    """The lasting name of this machine for the context; None when it has none yet."""
    with _open_lock_file(home, context) as file:
        return _lines(file)[0] or None


def ensure_host_id(home: Path, context: str) -> str:
    """The host id, which is written when there is none yet. Raises LocalIOError."""
    with _open_lock_file(home, context) as file:
        # Whoever takes the lock for good has written the name before it lets us read.
        if not _lines(file)[0] and _acquire_lock(file) and not _lines(file)[0]:
            _write(file, f"{secrets.token_hex(6)}\n")
        return _lines(file)[0]


def wake(home: Path, context: str) -> None:
    """Let the supervisor that runs here look at its bucket now."""
    os.close(open_private(state_file(home, context, "poke"), os.O_WRONLY | os.O_TRUNC))
    os.utime(state_file(home, context, "poke"))


def last_wake_ns(home: Path, context: str) -> int:
    """When `wake` was last called, in nanoseconds of the file system's clock; 0: never."""
    try:
        return state_file(home, context, "poke").stat().st_mtime_ns
    except OSError:
        return 0


def holder_pid(home: Path, context: str) -> int | None:
    """The process id of the lock's holder; None when nobody holds it."""
    with _open_lock_file(home, context) as file:
        pid = _lines(file)[1] if _is_held(file) else ""
        return int(pid) if pid.isdecimal() else None


def held_since_s(home: Path, context: str) -> float | None:
    """When the holder took the lock, in seconds since 1970; None when nobody holds it."""
    with _open_lock_file(home, context) as file:
        return os.fstat(file.fileno()).st_mtime if _is_held(file) else None


def stop_supervisor(home: Path, context: str, *, patience_s: float = 10.0) -> None:
    """End the supervisor of a context, if one runs here; its jobs go on without it.

    It is asked once, and killed when it stays. Raises DeadlineError.
    """
    for number, within_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, KILL_WAIT_S)):
        if _stop_with_signal(home, context, number, within_s):
            return
    raise DeadlineError(f"the supervisor of {context!r} does not end")


def remove_files(home: Path, context: str) -> None:
    """Remove the lock file of a context that is gone, and what its supervisor left."""
    for suffix in SUFFIXES:
        state_file(home, context, suffix).unlink(missing_ok=True)


def rename_files(home: Path, old: str, new: str) -> None:
    """Give the files of a context to its new name: this machine stays the host of its jobs."""
    for suffix in SUFFIXES:
        with suppress(FileNotFoundError):
            state_file(home, old, suffix).replace(state_file(home, new, suffix))


def log_path(home: Path, context: str) -> Path:
    """Where the background supervisor of a context writes what it does."""
    return state_file(home, context, "log")


def supervisor_argv(executable: str, context: str) -> Sequence[str]:
    """The command that supervises a context; no file of the working directory gets into it."""
    return [executable, "-P", "-m", "tpuctl", "--context", context, "supervisor", "run"]


def open_private(path: Path, flags: int) -> int:
    """Open a file that only its owner can read, its directory made when needed."""
    make_private(path.parent)
    return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)


def state_file(home: Path, context: str, suffix: str) -> Path:
    """A file of what this machine knows of a context and its supervisor."""
    return home / "supervisors" / f"{context}.{suffix}"


def _stop_with_signal(home: Path, context: str, number: signal.Signals, within_s: float) -> bool:
    """Send the holder one signal, and wait until the lock is free."""
    deadline = time.monotonic() + within_s
    told: int | None = None
    while is_locked(home, context):
        if time.monotonic() > deadline:
            return False
        pid = holder_pid(home, context)
        if pid is not None and pid != told:
            told = pid
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        time.sleep(POLL_S)
    return True


def _acquire_lock(file: IO[str]) -> bool:
    deadline = time.monotonic() + PROBE_S
    while not try_lock(file, fcntl.LOCK_EX):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def _is_held(file: IO[str]) -> bool:
    """Asked with a shared lock: askers are not in each other's way."""
    return not try_lock(file, fcntl.LOCK_SH)


def _lines(file: IO[str]) -> tuple[str, str]:
    """The host id and the process of the holder, each empty when there is none."""
    file.seek(0)
    first, second, *_ = [*file.read().split("\n"), "", ""]
    return first, second


def _write(file: IO[str], text: str) -> None:
    """Over what is there: at no moment the file is without the name."""
    file.seek(0)
    file.write(text)
    file.truncate()
    file.flush()
    os.fsync(file.fileno())


def _open_lock_file(home: Path, context: str) -> IO[str]:
    path = state_file(home, context, "lock")
    try:
        return os.fdopen(open_private(path, os.O_RDWR), "r+", encoding="ascii", errors="replace")
    except OSError as error:
        raise LocalIOError(
            f"cannot open {path}: {error.strerror}", hint="set TPUCTL_HOME to a writable directory"
        ) from error
