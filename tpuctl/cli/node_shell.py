"""`tpuctl node ssh` and `tpuctl node exec`: always attached."""

import asyncio
from collections.abc import Callable
from typing import Annotated, TextIO

import typer

from tpuctl.cli.byte_streams import bytes_to
from tpuctl.cli.options import Format
from tpuctl.cli.runtime import Runtime
from tpuctl.errors import PartialFailureError, TransientError, UsageError
from tpuctl.models.node import Node, Worker
from tpuctl.models.operation import Completed
from tpuctl.operations import fanout, lifecycle
from tpuctl.operations.wait import Patience

RESULTS = {
    "worker": lambda done: done.worker_id,
    "exit_status": lambda done: done.exit_status,
    "stdout": lambda done: done.stdout.decode("utf-8", "replace"),
    "stderr": lambda done: done.stderr.decode("utf-8", "replace"),
    "lost": lambda done: done.lost,
}

Name = Annotated[str, typer.Argument(metavar="NAME", help="The node.")]


def ssh(
    ctx: typer.Context,
    name: Name,
    worker: Annotated[str, typer.Option(metavar="ID", help="Which worker.")] = "0",
) -> None:
    """Log in to a worker of a node."""
    runtime = ctx.ensure_object(Runtime)
    node = reachable(runtime, name)
    chosen = fanout.chosen(node, worker)
    if len(chosen) != 1:
        raise UsageError("ssh goes to one worker", hint=f"run: tpuctl node exec {name} -- COMMAND")
    raise typer.Exit(asyncio.run(_login(runtime, node, chosen[0])))


def execute(
    ctx: typer.Context,
    name: Name,
    argv: Annotated[list[str], typer.Argument(metavar="-- COMMAND [ARG]...")],
    worker: Annotated[
        str, typer.Option(metavar="IDS", help="all, 0, 1,4,6 or 1-3; default: all.")
    ] = "all",
) -> None:
    """Run a command on the workers of a node.

    It gets no input, and ends with this command, whatever ends this one.
    """
    runtime = ctx.ensure_object(Runtime)
    node = reachable(runtime, name)
    chosen = fanout.chosen(node, worker)
    done = asyncio.run(_on_all(runtime, node, chosen, argv))
    if runtime.shared.output in (Format.JSON, Format.YAML):
        runtime.output.items(done, RESULTS)
    if len(done) == 1:
        _exit_as(done[0])
    failed = [one for one in done if one.exit_status]
    if failed:
        for one in failed:
            runtime.output.note(
                f"worker {one.worker_id}: {one.lost or f'exit status {one.exit_status}'}"
            )
        raise PartialFailureError(f"{len(failed)} of {len(done)} workers failed")


def _exit_as(done: Completed) -> None:
    if done.lost:
        raise TransientError(done.lost, hint="run it again; or look: tpuctl node list")
    raise typer.Exit(done.exit_status)


def reachable(runtime: Runtime, name: str) -> Node:
    """A node that commands can run on, and that lets our key in."""
    node = lifecycle.find(runtime.tpu, runtime.context.zone, name)
    lifecycle.require_ready(node)
    lifecycle.admit(runtime.tpu, node, runtime.access, Patience(60, runtime.sleep))
    return node


async def _on_all(
    runtime: Runtime, node: Node, workers: list[Worker], argv: list[str]
) -> list[Completed]:
    from tpuctl.api.shell import Shell

    is_document = runtime.shared.output in (Format.JSON, Format.YAML)
    prefixed = len(workers) > 1

    async def work(shell: Shell) -> Completed:
        if is_document:
            kept_out, kept_err = bytearray(), bytearray()
            status = await shell.execute(argv, out=kept_out.extend, err=kept_err.extend)
            return Completed(shell.worker_id, status, bytes(kept_out), bytes(kept_err))
        label = f"[{shell.worker_id}] " if prefixed else ""
        out, flush_out = _writer(runtime.out, label)
        err, flush_err = _writer(runtime.err, label)
        status = await shell.execute(argv, out=out, err=err)
        flush_out()
        flush_err()
        return Completed(shell.worker_id, status)

    return await fanout.on_workers(runtime.tpu, node, workers, runtime.access, work)


def _writer(stream: TextIO, label: str) -> tuple[Callable[[bytes], None], Callable[[], None]]:
    """Whole lines with a label, so that workers never share one; else bytes as they come."""
    emit = bytes_to(stream)
    pending = bytearray()

    def write(data: bytes) -> None:
        if not label:
            emit(data)
            return
        pending.extend(data)
        *lines, rest = bytes(pending).split(b"\n")
        pending[:] = rest
        emit(b"".join(label.encode() + line + b"\n" for line in lines))

    def flush() -> None:
        if pending:
            emit(label.encode() + bytes(pending) + b"\n")
            pending.clear()

    return write, flush


async def _login(runtime: Runtime, node: Node, worker: Worker) -> int:
    from tpuctl.api.shell import patient_shell
    from tpuctl.cli import terminal

    keys = runtime.tpu.host_keys(node.zone, node.name)
    out, _ = _writer(runtime.out, "")
    err, _ = _writer(runtime.err, "")
    key = keys[worker.worker_id]
    async with await patient_shell(worker, runtime.access, host_key=key) as shell:
        keyboard = terminal.keyboard()
        if not runtime.stdin.isatty():
            return await shell.login(out=out, err=err, stdin=keyboard)
        with terminal.raw(), terminal.watched_size(shell.resize):
            return await shell.login(out=out, err=err, stdin=keyboard, terminal=terminal.current())
