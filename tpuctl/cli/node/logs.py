"""`tpuctl node logs`: what the startup script of each worker printed."""

from typing import Annotated

import typer

from tpuctl.cli.node.details import SCRIPT
from tpuctl.cli.shell.options import NodeName, completed_by
from tpuctl.cli.shell.output import worker_label
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import printable
from tpuctl.operations.remote import fanout
from tpuctl.operations.slices import lifecycle


def logs(
    runtime: Runtime,
    name: NodeName,
    worker: Annotated[
        str,
        typer.Option(
            metavar="IDS",
            help="all, 0, 1,4,6 or 1-3; default: all.",
            autocompletion=completed_by("worker"),
        ),
    ] = "all",
) -> None:
    """Show what the startup script printed on each worker.

    Each worker writes the last 20 lines to its guest attributes when the script ends, so that no
    SSH is needed. The Cloud TPU API has no serial port: for the boot messages of a worker, run
    `tpuctl node exec NAME --worker ID --command 'sudo journalctl -b'`.
    """
    node = lifecycle.find(runtime.tpu, runtime.context.zone, name)
    chosen = {each.worker_id for each in fanout.select_workers(node, worker)}
    outcomes = lifecycle.require_startup_outcomes(runtime.tpu, node)
    shown = [outcome for outcome in outcomes if outcome.worker_id in chosen]
    if not runtime.output.is_table:
        runtime.output.items(shown, SCRIPT)
        return
    is_coloured = runtime.output.shows_colours(runtime.out)
    for outcome in shown:
        label = worker_label(str(outcome.worker_id), outcome.worker_id, is_coloured=is_coloured)
        for line in outcome.output.splitlines():
            runtime.output.line(f"{label} {printable(line)}")
        code = "" if outcome.exit_code is None else f" with {outcome.exit_code}"
        runtime.output.note(f"startup script of worker {outcome.worker_id}: {outcome.state}{code}")
