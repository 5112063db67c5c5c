"""Starts the list command whose names the next completion offers; nobody waits for it."""

import fcntl
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tpuctl.durable_directories import make_private
from tpuctl.operations.completion.name_cache import (
    FRESH_S,
    JOB,
    MOST_ROWS,
    NODE,
    OBJECT,
    REQUEST,
    SERVICE,
    STEP,
    KnownList,
)

VERBS: Mapping[str, Sequence[str]] = {
    NODE: ("node", "list"),
    REQUEST: ("queued-resource", "list"),
    JOB: ("job", "list"),
    SERVICE: ("service", "list"),
    STEP: ("checkpoint", "list"),
    OBJECT: ("data", "list", "--limit", str(MOST_ROWS)),
}
COMPLETION_VARIABLES = ("_TPUCTL_COMPLETE", "_TYPER_COMPLETE_ARGS", "COMP_WORDS", "COMP_CWORD")
Spawn = Callable[[list[str], Mapping[str, str]], object]
"""Starts a program with an environment, and does not wait for it."""


def is_fresh(known: KnownList | None, now_s: float) -> bool:
    """Whether a list is young enough; one from a clock that was ahead is not."""
    return known is not None and 0 <= now_s - known.listed_s < FRESH_S


def list_argv(context: str, key: str) -> list[str]:
    """The command that makes the list of that key again."""
    kind, _, place = key.partition(" ")
    ours = (sys.executable, "-P", "-m", "tpuctl", "--context", context)
    return [*ours, *VERBS[kind], *([place] if place else []), "-o", "name", "--quiet"]


def start_listing(
    home: Path, context: str, key: str, environ: Mapping[str, str], spawn: Spawn | None = None
) -> bool:
    """Make a list again in the background; False where another one is under way or was just now.

    The child inherits the lock and holds it until it ends.
    """
    with suppress(OSError):
        make_private(home / "completion")
        path = home / "completion" / f"{context}.lock"
        is_new = not path.exists()
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            age_s = time.time() - os.fstat(lock).st_mtime
            if not is_new and 0 <= age_s < FRESH_S:
                return False
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.utime(lock)
            os.set_inheritable(lock, True)  # noqa: FBT003
            outer = {k: v for k, v in environ.items() if k not in COMPLETION_VARIABLES}
            (spawn or spawn_detached)(list_argv(context, key), outer)
            return True
        finally:
            os.close(lock)
    return False


def spawn_detached(argv: list[str], environ: Mapping[str, str]) -> None:
    """Start a program in a session of its own, without input and output."""
    null = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, null, number) for number in (0, 1, 2)]
    try:
        os.posix_spawn(argv[0], argv, environ, file_actions=actions, setsid=True)
    except NotImplementedError:  # macOS before 10.15
        os.posix_spawn(argv[0], argv, environ, file_actions=actions, setpgroup=0)
    finally:
        os.close(null)
