"""`tpuctl node exec`: one command on many workers, always attached."""

import re
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from tpuctl.cli.node.exec_output import FileSink, GroupedSink, LabelledSink, MemorySink
from tpuctl.cli.node.exec_results import RESULTS, report_results
from tpuctl.cli.node.ssh import SHELL_LINE
from tpuctl.cli.shell.options import NodeName, completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.worker_access import accessible_node
from tpuctl.errors import UsageError
from tpuctl.models.duration import parse_duration
from tpuctl.operations.remote.fanout import WorkerReach
from tpuctl.operations.workers import execute as commands
from tpuctl.operations.workers import targets
from tpuctl.operations.workers.targets import CommandTarget

Argv = Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND [ARG]...")]
Line = Annotated[
    str | None,
    typer.Option("--command", metavar="LINE", help="A line for the login shell, as gcloud has it."),
]
WorkerIds = Annotated[
    str | None,
    typer.Option(
        metavar="IDS",
        help="all, 0, 1,4,6 or 1-3; default: all.",
        autocompletion=completed_by("worker"),
    ),
]
OnlyFailed = Annotated[
    bool, typer.Option("--only-failed", help="The workers that failed in the last exec.")
]
Group = Annotated[
    bool, typer.Option("--group", help="Print equal outputs once, when all have ended.")
]
OutputDirectory = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write DIR/<worker>.log, print nothing.")
]
Limit = Annotated[
    str | None, typer.Option(metavar="DURATION", help="End it on a worker after that.")
]


_SHELL_SYNTAX = re.compile(r"[\s|&;<>$`*?]")
"""What a shell would read: no program has a name with one of these in it."""


@dataclass(frozen=True, slots=True)
class ExecOptions:
    """Which workers a command runs on, where its output goes and how long it has."""

    worker: str | None
    only_failed: bool
    group: bool
    output_directory: Path | None
    timeout: str | None

    def check(self, runtime: Runtime) -> None:
        """Raises UsageError for options that exclude each other or cannot be read."""
        _require_one([self.only_failed, self.worker is not None], "--only-failed and --worker")
        if self.timeout:
            parse_duration(self.timeout)
        outputs = [self.group, bool(self.output_directory), runtime.output.is_document]
        _require_one(outputs, "--group, --output-directory and -o")


def execute(
    runtime: Runtime,
    name: NodeName,
    argv: Argv = None,
    command: Line = None,
    worker: WorkerIds = None,
    only_failed: OnlyFailed = False,
    group: Group = False,
    output_directory: OutputDirectory = None,
    timeout: Limit = None,
) -> None:
    """Run a command on the workers of a node.

    COMMAND is a program and its arguments, --command a line for the shell of the workers.

    The command gets no input. When tpuctl ends, the command ends on the workers too.
    """
    words = command_words(f"node exec {name}", argv or [], command)
    options = ExecOptions(worker, only_failed, group, output_directory, timeout)
    options.check(runtime)
    node = accessible_node(runtime, name)
    reach = WorkerReach(runtime.tpu, runtime.access, node, node.workers)
    execute_on(runtime, targets.node_target(reach), words, options)


def command_words(verb: str, argv: list[str], line: str | None) -> list[str]:
    """The program and the arguments that run on a worker. Raises UsageError."""
    if line is not None:
        _require_one([True, bool(argv)], "--command and -- COMMAND")
        return [*SHELL_LINE, line]
    if not argv:
        raise UsageError("no command is given", hint=f"run: tpuctl {verb} -- COMMAND [ARG]...")
    if len(argv) == 1 and _SHELL_SYNTAX.search(argv[0]):
        typed = quote(argv[0])
        raise UsageError(
            f"{argv[0]!r} is a line for a shell, and exec runs a program with its arguments",
            hint=f"run: tpuctl {verb} --command {typed}, or -- sh -c {typed}",
        )
    return argv


def execute_on(
    runtime: Runtime, target: CommandTarget, argv: list[str], options: ExecOptions
) -> None:
    """Run a command on the workers that the options choose; exit as their results say."""
    limit = (options.timeout, parse_duration(options.timeout)) if options.timeout else None
    chosen = _select_workers(runtime, target, options)
    sink = _open_sink(runtime, options, is_labelled=len(chosen.workers) > 1)
    try:
        done = commands.execute(chosen, argv, sink, limit)
    finally:
        sink.close()
    commands.save_failed(runtime.home, runtime.context.name, target, done)
    if runtime.output.is_document:
        runtime.output.items(done, RESULTS)
    report_results(runtime, target, done)


def _open_sink(
    runtime: Runtime, options: ExecOptions, *, is_labelled: bool
) -> commands.CommandOutput:
    if runtime.output.is_document:
        return MemorySink()
    if options.output_directory:
        return FileSink(options.output_directory)
    if options.group:
        return GroupedSink(runtime.out, runtime.err)
    streams = (runtime.out, runtime.err)
    are_coloured = [runtime.output.shows_colours(stream) for stream in streams]
    return LabelledSink(streams, are_coloured if is_labelled else None)


def _require_one(given: list[bool], names: str) -> None:
    if sum(given) > 1:
        raise UsageError(f"{names} exclude each other", hint="run: tpuctl node exec --help")


def _select_workers(runtime: Runtime, target: CommandTarget, options: ExecOptions) -> CommandTarget:
    if options.only_failed:
        return target.narrow(commands.load_failed(runtime.home, runtime.context.name, target))
    return target.select("all" if options.worker is None else options.worker)
