"""A command line for a worker's login shell that ends when its client does."""

import os
import secrets
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from tpuctl.errors import UsageError

SCRIPTS = Path(__file__).parents[2] / "agent" / "tools"
_LINE = (
    '{exports}set -- {watched} {argv}; test -n "$BASH_VERSION" && eval "$1"; '
    'command -v bash >/dev/null && exec bash -c "$1" bash "$@"; eval {unwatched}'
)
_WITH_GROUP_FILE = '(umask 077; echo $$ >"${TMPDIR:-/tmp}/$1"); shift; exec "$@"'
HEARTBEAT = b"\n"
HEARTBEAT_S = 2.0


def heartbeat_command(argv: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """The line that runs argv for as long as heartbeats come, with these variables set, too.

    Raises UsageError for a NUL.
    """
    if any("\0" in word for word in argv):
        raise UsageError("an argument must not contain a NUL byte")
    watched, unwatched = _scripts()
    told = " ".join(f"{name}={shlex.quote(value)}" for name, value in (variables or {}).items())
    exports = f"export {told}; " if told else ""
    return _LINE.format(exports=exports, watched=watched, argv=_line_of(argv), unwatched=unwatched)


def command_and_watcher(argv: Sequence[str]) -> tuple[str, str]:
    """The line that runs argv with its client's own input, and the line beside that ends it.

    The second is `attached`: it wants heartbeats, and its end ends a command that still runs.
    """
    noted = f"tpuctl-ssh-{secrets.token_hex(8)}"
    beside = heartbeat_command(["sh", "-c", _script("keeper.sh"), "sh", noted])
    return "exec " + _line_of(["sh", "-c", _WITH_GROUP_FILE, "sh", noted, *argv]), beside


def _line_of(argv: Sequence[str]) -> str:
    """argv as one line for a POSIX shell, in UTF-8, which every SSH server accepts."""
    return " ".join(map(_quoted, argv))


def _quoted(word: str) -> str:
    """One quoted word; bytes that are not UTF-8 become a printf that writes them."""
    try:
        word.encode()
    except UnicodeEncodeError:
        body = word.rstrip("\n")  # command substitution drops the line ends
        octal = "".join(f"\\0{byte:03o}" for byte in os.fsencode(body))
        return f"\"$(printf %b '{octal}')\"" + shlex.quote(word.removeprefix(body))
    return shlex.quote(word)


@cache
def _scripts() -> tuple[str, str]:
    watched, unwatched = map(_script, ("attached.sh", "attached_posix.sh"))
    return shlex.quote(watched), shlex.quote(unwatched)


def _script(name: str) -> str:
    lines = (SCRIPTS / name).read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("#"))
