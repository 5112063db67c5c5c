"""One command on many workers of a node; which of them failed is kept for the next time."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tpuctl.config import write_private
from tpuctl.errors import DamagedStateError, PreconditionError
from tpuctl.models.operation import CommandResult
from tpuctl.operations.remote.fanout import run_on_each
from tpuctl.operations.workers.targets import CommandTarget

if TYPE_CHECKING:
    from tpuctl.api.ssh.worker_shell import Shell

TIMED_OUT = 124
"""The exit status of a command that was ended after its time, as timeout(1) has it."""

SCHEMA = 1

Write = Callable[[bytes], None]


class CommandOutput(Protocol):
    """Where the output of a command on several workers goes."""

    def writers(self, worker_id: int) -> tuple[Write, Write]:
        """Two functions that take a worker's standard output and its standard error."""

    def ended(self, worker_id: int) -> tuple[bytes, bytes]:
        """A worker prints no more: what is kept of its standard output and error."""

    def close(self) -> None:
        """Finish, after all workers have ended."""


def execute(
    target: CommandTarget, argv: list[str], output: CommandOutput, timeout: tuple[str, float] | None
) -> list[CommandResult]:
    """Run a command on workers together; a lost worker is a result, not an error.

    Each worker tells the command its number and how many they are. `timeout` is the time that it
    has on each worker: as text, and in seconds.
    """
    text, limit_s = timeout or ("", None)

    async def work(shell: Shell) -> CommandResult:
        number = shell.worker_id
        out, err = output.writers(number)
        lost = None
        try:
            status = await shell.execute(
                [*target.within, *argv],
                out=out,
                err=err,
                timeout_s=limit_s,
                variables=target.variables[number],
            )
        except TimeoutError:
            status, lost = TIMED_OUT, f"worker {number}: no end within {text}"
        return CommandResult(number, status, *output.ended(number), lost=lost)

    async def work_everywhere() -> list[CommandResult]:
        parts = await asyncio.gather(*(run_on_each(reach, work) for reach in target.reaches))
        return [result for part in parts for result in part]

    return asyncio.run(work_everywhere())


def save_failed(
    home: Path, context: str, target: CommandTarget, done: Sequence[CommandResult]
) -> None:
    """Remember who failed; nothing is kept when nobody did. Raises LocalIOError."""
    path = _path(home, context, target)
    failed = [result.worker_id for result in done if result.exit_status]
    if not failed:
        path.unlink(missing_ok=True)
        return
    document = {"schema": SCHEMA, "node": target.identity, "failed": failed}
    write_private(path, json.dumps(document).encode())


def load_failed(home: Path, context: str, target: CommandTarget) -> list[int]:
    """The workers that failed; raises PreconditionError when none did, DamagedStateError."""
    path = _path(home, context, target)
    failed: list[int] = []
    if path.is_file():
        try:
            document = json.loads(path.read_text("utf-8"))
            if document["node"] == [*target.identity]:  # else of an earlier one of its name
                failed = [int(worker_id) for worker_id in document["failed"]]
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedStateError(f"cannot read {path}", hint=f"run: rm {path}") from error
    if not failed:
        raise PreconditionError(
            f"no worker of {target.noun} {target.name!r} failed in its last exec from here",
            hint="leave out --only-failed",
        )
    return failed


def rename_notes(home: Path, old: str, new: str) -> None:
    """Give what is remembered of a context to its new name, in place of what was left there."""
    if not _notes(home, old).is_dir():
        return
    shutil.rmtree(_notes(home, new), ignore_errors=True)
    _notes(home, old).replace(_notes(home, new))


def _path(home: Path, context: str, target: CommandTarget) -> Path:
    return _notes(home, context) / target.note


def _notes(home: Path, context: str) -> Path:
    return home / "exec" / context
