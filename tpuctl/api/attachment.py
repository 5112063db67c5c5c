"""A command line for a worker's login shell that ends when its client does."""

import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tpuctl.errors import UsageError

AGENT = Path(__file__).parents[1] / "agent"
_LINE = (
    'set -- {watched} {argv}; test -n "$BASH_VERSION" && eval "$1"; '
    'command -v bash >/dev/null && exec bash -c "$1" bash "$@"; eval {unwatched}'
)
HEARTBEAT = b"\n"
HEARTBEAT_S = 2.0


def attached(argv: Sequence[str]) -> str:
    """The line that runs argv for as long as heartbeats come; raises UsageError for a NUL."""
    if any("\0" in word for word in argv):
        raise UsageError("an argument cannot have a NUL in it")
    watched, unwatched = _scripts()
    return _LINE.format(watched=watched, argv=shlex.join(argv), unwatched=unwatched)


@cache
def _scripts() -> tuple[str, str]:
    return _script("attached.sh"), _script("attached_posix.sh")


def _script(name: str) -> str:
    lines = (AGENT / name).read_text("utf-8").splitlines()
    return shlex.quote("\n".join(line for line in lines if not line.startswith("#")))
