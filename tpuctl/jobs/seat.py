"""One supervisor per context and machine: a lock that dies with its holder."""

import fcntl
import os
import secrets
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tpuctl.errors import DeadlineError, LocalIOError, LockedError


@contextmanager
def taken(home: Path, context: str) -> Iterator[str]:
    """Hold the seat of a context; yields its lasting name. Raises LockedError, LocalIOError."""
    with _opened(home, context) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LockedError(
                f"a supervisor of context {context!r} runs on this machine already"
            ) from error
        file.seek(0)
        name = file.read().strip()
        if not name:
            name = secrets.token_hex(6)
            file.write(name)
            file.flush()
            os.fsync(file.fileno())
        pid = _pid_path(home, context)
        pid.write_text(str(os.getpid()), "ascii")
        try:
            yield name
        finally:
            pid.unlink(missing_ok=True)


def is_taken(home: Path, context: str) -> bool:
    """A supervisor of the context runs on this machine."""
    with _opened(home, context) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def holder(home: Path, context: str) -> int | None:
    """The process that said last that it took the seat; None when it has left it."""
    try:
        return int(_pid_path(home, context).read_text("ascii"))
    except (OSError, ValueError):
        return None


def end(home: Path, context: str, *, patience_s: float = 10.0) -> None:
    """End the supervisor of a context, if one runs here; its jobs go on without it.

    Raises DeadlineError.
    """
    deadline = time.monotonic() + patience_s
    while is_taken(home, context):
        if time.monotonic() > deadline:
            raise DeadlineError(f"the supervisor of {context!r} does not end")
        pid = holder(home, context)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        time.sleep(0.05)


def log_path(home: Path, context: str) -> Path:
    """Where the background supervisor of a context writes what it does."""
    return home / "supervisors" / f"{context}.log"


def argv(executable: str, context: str) -> Sequence[str]:
    """The command that supervises a context; no file of the working directory gets into it."""
    return [executable, "-P", "-m", "tpuctl", "--context", context, "supervisor", "run"]


def private(path: Path, flags: int) -> int:
    """Open a file that only its owner can read, its directory made when needed."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _pid_path(home: Path, context: str) -> Path:
    return home / "supervisors" / f"{context}.pid"


def _opened(home: Path, context: str) -> IO[str]:
    path = home / "supervisors" / f"{context}.lock"
    try:
        return os.fdopen(private(path, os.O_RDWR), "r+", encoding="ascii")
    except OSError as error:
        raise LocalIOError(
            f"cannot open {path}: {error.strerror}", hint="set TPUCTL_HOME to a writable directory"
        ) from error
