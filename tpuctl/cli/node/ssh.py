"""`tpuctl node ssh`: a terminal on one worker; and what every command on workers needs."""

import asyncio
from typing import Annotated

import typer

from tpuctl.cli.shell.byte_streams import worker_output_writer
from tpuctl.cli.shell.options import NodeName, completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.worker_access import (
    CHECK_WORKERS_HINT,
    accessible_node,
    raise_if_preempted,
)
from tpuctl.errors import TransientError, UsageError
from tpuctl.operations.remote.fanout import WorkerReach
from tpuctl.operations.workers import targets
from tpuctl.operations.workers.targets import CommandTarget

SHELL_LINE = ("sh", "-c", 'exec "${SHELL:-/bin/sh}" -c "$1"', "sh")


def ssh(
    runtime: Runtime,
    name: NodeName,
    argv: Annotated[list[str] | None, typer.Argument(metavar="[-- COMMAND [ARG]...]")] = None,
    worker: Annotated[
        str, typer.Option(metavar="ID", help="Which worker.", autocompletion=completed_by("worker"))
    ] = "0",
) -> None:
    """Log in to a worker, or run a command there.

    The command has your terminal and your input.

    As in ssh, a COMMAND of one word is a line for the login shell: -- 'cd run && tail -f log'.
    """
    require_no_option(argv or [], hint=f"for ports run: tpuctl node forward {name} [LOCAL:]REMOTE")
    node = accessible_node(runtime, name)
    reach = WorkerReach(runtime.tpu, runtime.access, node, node.workers)
    log_in(runtime, targets.node_target(reach).select(worker), argv or [])


def log_in(runtime: Runtime, target: CommandTarget, argv: list[str]) -> None:
    """Log in to the only worker of a target, and exit as the shell or argv does there."""
    if len(target.workers) != 1:
        hint = f"run: tpuctl {target.noun} exec {target.name} -- COMMAND"
        raise UsageError("ssh goes to one worker", hint=hint)
    (reach,) = target.reaches
    line = [*SHELL_LINE, *argv] if len(argv) == 1 else argv
    try:
        status = asyncio.run(_login(runtime, reach, line))
    except TransientError as error:
        raise_if_preempted(runtime, reach.node)
        error.hint = error.hint or f"run it again; or {CHECK_WORKERS_HINT.format(reach.node.name)}"
        raise
    raise typer.Exit(status)


def require_no_option(argv: list[str], *, hint: str) -> None:
    """Raises UsageError for a command that begins with `-`: it is an option of ssh."""
    if argv and argv[0].startswith("-"):
        text = f"{argv[0]!r} is not a command, and options of ssh are not taken"
        raise UsageError(text, hint=hint)


async def _login(runtime: Runtime, reach: WorkerReach, argv: list[str]) -> int:
    from tpuctl.cli.shell import terminal
    from tpuctl.operations.workers import access

    is_raw = runtime.stdin.isatty()
    out, err = (
        worker_output_writer(stream, is_raw=is_raw) for stream in (runtime.out, runtime.err)
    )
    (worker,) = reach.workers
    async with access.open_shell(reach.api, reach.access, reach.node, worker) as shell:
        keyboard = terminal.stdin_reader()
        if not is_raw:
            return await shell.login(out=out, err=err, stdin=keyboard, argv=argv)
        with terminal.raw_mode(), terminal.watch_size(shell.resize):
            return await shell.login(
                out=out, err=err, stdin=keyboard, terminal=terminal.current_terminal(), argv=argv
            )
