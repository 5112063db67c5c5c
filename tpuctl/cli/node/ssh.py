"""`tpuctl node ssh`: a terminal on one worker; and what every command on workers needs."""

import asyncio
from typing import Annotated

import typer

from tpuctl.cli.shell.byte_streams import worker_output_writer
from tpuctl.cli.shell.options import NodeName
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.worker_access import (
    CHECK_WORKERS_HINT,
    accessible_node,
    raise_if_preempted,
)
from tpuctl.errors import TransientError, UsageError
from tpuctl.models.node import Node, Worker
from tpuctl.operations.remote import fanout

SHELL_LINE = ("sh", "-c", 'exec "${SHELL:-/bin/sh}" -c "$1"', "sh")


def ssh(
    runtime: Runtime,
    name: NodeName,
    argv: Annotated[list[str] | None, typer.Argument(metavar="[-- COMMAND [ARG]...]")] = None,
    worker: Annotated[str, typer.Option(metavar="ID", help="Which worker.")] = "0",
) -> None:
    """Log in to a worker of a node, or run a command there with your terminal and your input.

    As ssh has it, a COMMAND of one word is a line for the login shell: -- 'cd run && tail -f log'.
    """
    _require_no_option(name, argv or [])
    node = accessible_node(runtime, name)
    chosen = fanout.select_workers(node, worker)
    if len(chosen) != 1:
        raise UsageError("ssh goes to one worker", hint=f"run: tpuctl node exec {name} -- COMMAND")
    line = [*SHELL_LINE, *argv] if argv and len(argv) == 1 else argv or []
    try:
        status = asyncio.run(_login(runtime, node, chosen[0], line))
    except TransientError as error:
        raise_if_preempted(runtime, node)
        error.hint = error.hint or f"run it again; or {CHECK_WORKERS_HINT.format(name)}"
        raise
    raise typer.Exit(status)


def _require_no_option(name: str, argv: list[str]) -> None:
    if argv and argv[0].startswith("-"):
        text = f"{argv[0]!r} is no command, and options of ssh are not taken"
        raise UsageError(text, hint=f"for ports run: tpuctl node forward {name} [LOCAL:]REMOTE")


async def _login(runtime: Runtime, node: Node, worker: Worker, argv: list[str]) -> int:
    from tpuctl.cli.shell import terminal
    from tpuctl.operations.workers import access

    is_raw = runtime.stdin.isatty()
    out, err = (
        worker_output_writer(stream, is_raw=is_raw) for stream in (runtime.out, runtime.err)
    )
    async with access.open_shell(runtime.tpu, runtime.access, node, worker) as shell:
        keyboard = terminal.stdin_reader()
        if not is_raw:
            return await shell.login(out=out, err=err, stdin=keyboard, argv=argv)
        with terminal.raw_mode(), terminal.watch_size(shell.resize):
            return await shell.login(
                out=out, err=err, stdin=keyboard, terminal=terminal.current_terminal(), argv=argv
            )
