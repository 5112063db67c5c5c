"""`tpuctl explain`: what is wrong with a job or a node, in a sentence each."""

from typing import Annotated

import typer

from tpuctl.cli.shell import job_notices
from tpuctl.cli.shell.options import completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import Columns, attributes, printable
from tpuctl.errors import UsageError
from tpuctl.metrics.findings.observation import Finding
from tpuctl.operations.jobs import supervision

FINDING: Columns[Finding] = {
    **attributes("name"),
    "workers": lambda found: list(found.workers),
    **attributes("sentence", "evidence", "command"),
}
"""One finding as a JSON object. Keys are public."""


def explain(
    runtime: Runtime,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A job (its id, or its name) or a node.",
            autocompletion=completed_by("job or node"),
        ),
    ],
    job: Annotated[bool, typer.Option("--job", help="The job of that name.")] = False,
    node: Annotated[bool, typer.Option("--node", help="The node of that name.")] = False,
) -> None:
    """Say what is wrong with a job or a node: each finding with its evidence and the next command.

    The workers are measured now; a job that has ended is judged by what its bucket has.
    """
    from tpuctl.operations.metrics import explain as operation

    if job and node:
        raise UsageError("--job and --node exclude each other", hint="give one of them")
    found = operation.explain(
        runtime, runtime.access, name, zone=runtime.shared.zone, is_job=job, is_node=node
    )
    for line in found.missing:
        runtime.output.warn(line)
    if found.seen.job:
        told = supervision.check_supervised(runtime, [found.seen.job])
        job_notices.show_supervision(runtime, told)
    if not runtime.output.is_table:
        runtime.output.items(found.findings, FINDING)
        return
    for each in found.findings:
        runtime.output.sentence(runtime.output.typed(line_of(each)))
    if not found.findings:
        runtime.output.sentence(operation.calm_sentence(found, runtime.now()))


def line_of(found: Finding) -> str:
    """A finding in one line: the sentence, its evidence and the command to run next."""
    return printable(f"{found.sentence} ({found.evidence}); run: {found.command}")
