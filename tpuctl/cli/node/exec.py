"""`tpuctl node exec`: one command on many workers, always attached."""

from pathlib import Path
from typing import Annotated

import typer

from tpuctl.cli.node.exec_output import FileSink, GroupedSink, LabelledSink, MemorySink
from tpuctl.cli.node.exec_results import RESULTS, report_results
from tpuctl.cli.shell.options import NodeName
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.worker_access import accessible_node
from tpuctl.errors import UsageError
from tpuctl.models.duration import parse_duration
from tpuctl.models.node import Node, Worker
from tpuctl.operations.remote import fanout
from tpuctl.operations.workers import execute as commands


def execute(
    runtime: Runtime,
    name: NodeName,
    argv: Annotated[list[str], typer.Argument(metavar="-- COMMAND [ARG]...")],
    worker: Annotated[
        str | None, typer.Option(metavar="IDS", help="all, 0, 1,4,6 or 1-3; default: all.")
    ] = None,
    only_failed: Annotated[
        bool, typer.Option("--only-failed", help="The workers that failed in the last exec.")
    ] = False,
    group: Annotated[
        bool, typer.Option("--group", help="Print equal outputs once, when all have ended.")
    ] = False,
    output_directory: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write DIR/<worker>.log, print nothing.")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="End it on a worker after that.")
    ] = None,
) -> None:
    """Run a command on the workers of a node.

    It gets no input, and ends with this command, whatever ends this one.
    """
    _require_one([only_failed, worker is not None], "--only-failed and --worker")
    limit = (timeout, parse_duration(timeout)) if timeout else None
    is_document = runtime.output.is_document
    _require_one([group, bool(output_directory), is_document], "--group, --output-directory and -o")
    node = accessible_node(runtime, name)
    chosen = _select_workers(runtime, node, worker, only_failed=only_failed)
    reach = fanout.WorkerReach(runtime.tpu, runtime.access, node, chosen)
    if is_document:
        sink: commands.CommandOutput = MemorySink()
    elif output_directory:
        sink = FileSink(output_directory)
    elif group:
        sink = GroupedSink(runtime.out, runtime.err)
    else:
        sink = LabelledSink(runtime.out, runtime.err, is_labelled=len(chosen) > 1)
    try:
        done = commands.execute(reach, argv, sink, limit)
    finally:
        sink.close()
    commands.save_failed(runtime.home, runtime.context.name, node, done)
    if is_document:
        runtime.output.items(done, RESULTS)
    report_results(runtime, node, done)


def _require_one(given: list[bool], names: str) -> None:
    if sum(given) > 1:
        raise UsageError(f"{names} exclude each other", hint="run: tpuctl node exec --help")


def _select_workers(
    runtime: Runtime, node: Node, worker: str | None, *, only_failed: bool
) -> list[Worker]:
    if not only_failed:
        return fanout.select_workers(node, "all" if worker is None else worker)
    failed = commands.load_failed(runtime.home, runtime.context.name, node)
    return [one for one in node.workers if one.worker_id in failed]
