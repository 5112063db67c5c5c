"""One command on many workers of a node; which of them failed is kept for the next time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tpuctl.config import write_private
from tpuctl.errors import DamagedStateError, PreconditionError
from tpuctl.models.node import Node
from tpuctl.models.operation import CommandResult
from tpuctl.operations.remote.fanout import WorkerReach, run_on_each

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
    reach: WorkerReach, argv: list[str], output: CommandOutput, timeout: tuple[str, float] | None
) -> list[CommandResult]:
    """Run a command on workers together; a lost worker is a result, not an error.

    `timeout` is the time that it has on each worker: as text, and in seconds.
    """
    text, limit_s = timeout or ("", None)

    async def work(shell: Shell) -> CommandResult:
        number = shell.worker_id
        out, err = output.writers(number)
        lost = None
        try:
            status = await shell.execute(argv, out=out, err=err, timeout_s=limit_s)
        except TimeoutError:
            status, lost = TIMED_OUT, f"worker {number}: no end within {text}"
        return CommandResult(number, status, *output.ended(number), lost=lost)

    return asyncio.run(run_on_each(reach, work))


def save_failed(home: Path, context: str, node: Node, done: Sequence[CommandResult]) -> None:
    """Remember who failed; nothing is kept when nobody did. Raises LocalIOError."""
    path = _path(home, context, node)
    failed = [result.worker_id for result in done if result.exit_status]
    if not failed:
        path.unlink(missing_ok=True)
        return
    document = {"schema": SCHEMA, "node": _identity(node), "failed": failed}
    write_private(path, json.dumps(document).encode())


def load_failed(home: Path, context: str, node: Node) -> list[int]:
    """The workers that failed; raises PreconditionError when none did, DamagedStateError."""
    path = _path(home, context, node)
    failed: list[int] = []
    if path.is_file():
        try:
            document = json.loads(path.read_text("utf-8"))
            if document["node"] == _identity(node):  # else of a node that had its name before
                failed = [int(worker_id) for worker_id in document["failed"]]
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedStateError(f"cannot read {path}", hint=f"run: rm {path}") from error
    if not failed:
        raise PreconditionError(
            f"no worker of node {node.name!r} failed in its last exec from here",
            hint="leave out --only-failed",
        )
    return failed


def _identity(node: Node) -> list[str | float]:
    return [str(node.node_id), node.created_s]


def _path(home: Path, context: str, node: Node) -> Path:
    return home / "exec" / context / node.zone / f"{node.name}.json"
