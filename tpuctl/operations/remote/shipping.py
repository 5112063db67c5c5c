"""A program and its orders, shipped to a worker, and what it says."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tpuctl.errors import TransientError

if TYPE_CHECKING:
    from tpuctl.api.ssh.worker_shell import Shell

INSTALL = """\
umask 077 && mkdir -p "$HOME/.tpuctl/data" && cat >"$HOME/$1.new" && mv "$HOME/$1.new" "$HOME/$1"
"""
INSTALL_S = 300.0


async def ship_archive(shell: Shell, packed: bytes) -> list[str]:
    """Put an archive on a worker; returns the command that runs and removes it.

    Raises TransientError.
    """
    path = f".tpuctl/data/{secrets.token_hex(8)}.pyz"
    done = await shell.run(["sh", "-c", INSTALL, "sh", path], stdin=packed, timeout_s=INSTALL_S)
    if done.exit_status != 0:
        raise TransientError(f"worker {shell.worker_id}: {last_line(done.stderr)}")
    return ["python3", path]


class JsonLineReader:
    """JSON lines that come in pieces, each given to `take`; what else is said is kept."""

    def __init__(self, take: Callable[[dict[str, Any]], None]) -> None:
        self._take = take
        self._rest = b""
        self._errors = bytearray()

    def out(self, data: bytes) -> None:
        """Take a piece of standard output. Raises TransientError for what is not JSON."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError as error:
                raise TransientError(f"the worker says {line[:80]!r}") from error
            self._take(event)

    def err(self, data: bytes) -> None:
        """Take a piece of standard error; its last 4 KiB are kept."""
        self._errors.extend(data)
        del self._errors[:-4096]

    @property
    def complaint(self) -> str:
        """The last line on standard error."""
        return last_line(bytes(self._errors))


def last_line(text: bytes) -> str:
    """The last line of a text that is not blank."""
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing"
