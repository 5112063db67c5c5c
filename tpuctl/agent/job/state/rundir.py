"""The files of a run's directory that its agent and its verbs share. Python 3.8."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time

from tpuctl.agent.job.state import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def config(directory: str) -> dict[str, Any]:
    """Read DIR/config.json; raises OSError."""
    with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def read_status(directory: str) -> dict[str, Any] | None:
    """Read DIR/status.json, None without one; raises ValueError while it is half written."""
    try:
        with open(os.path.join(directory, "status.json"), encoding="utf-8") as file:
            status: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        return None
    return status


def known_status(directory: str) -> dict[str, Any] | None:
    """Read the status like read_status; empty while it is half written on a full disk."""
    try:
        return read_status(directory)
    except ValueError:
        return {}


STUCK_S = 20.0
"""An agent renews its status every 5 s while its stages run, whatever its program does."""
UNREACHED = 75
"""The exit status (sysexits' EX_TEMPFAIL) for what may go better another time."""
EXCHANGED = 65
"""The exit status (sysexits' EX_DATAERR) of `fetch` when the workdir is not what was submitted."""


def is_stuck(directory: str, status: Mapping[str, Any]) -> bool:
    """Whether a run that has not ended wrote no status for STUCK_S: it is stopped or waits."""
    if status.get("phase", "ended") == "ended":
        return False
    try:
        written_s = os.stat(os.path.join(directory, "status.json")).st_mtime
        is_read_only = os.statvfs(directory).f_flag & os.ST_RDONLY
    except OSError:
        return False
    return not is_read_only and time.time() - written_s > STUCK_S


def is_alive(directory: str) -> bool:
    """Whether the agent of that run lives: its lock is held, or its process is still there."""
    try:
        with open(os.path.join(directory, "lock"), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    # A file system that was mounted over this one since has another lock.
    try:
        status = read_status(directory) or {}
    except ValueError:  # it is being written on a full disk
        return True
    began = status.get("agent_started")
    return began is not None and processes.start_ticks(status["agent_pid"]) == began


def replace(path: str, text: str) -> None:
    """Write a file at once: readers see the old one or the new one. Raises OSError."""
    new = path + ".new"
    try:
        with open(new, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(new, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise


def write_word(path: str, word: str) -> None:
    """Leave a word as the text of a link: a full disk takes a link when it takes no data."""
    new = f"{path}.{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)
    os.symlink(word, new)
    os.replace(new, path)


def read_word(path: str) -> str:
    """Read what write_word wrote; empty when there is nothing."""
    try:
        return os.readlink(path)
    except OSError:
        return ""
