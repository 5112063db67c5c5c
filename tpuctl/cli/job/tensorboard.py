"""`tpuctl job tensorboard`: a job's samples as event files, for stock TensorBoard."""

import shlex
from typing import Annotated

import typer

from tpuctl.byte_size import count_text
from tpuctl.cli.shell.options import JobName
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.operations.metrics.tensorboard import write_event_files


def tensorboard(
    runtime: Runtime,
    name: JobName,
    logdir: Annotated[
        str | None,
        typer.Option(metavar="DIR|gs://...", help="Where to; else tensorboard/ID below here."),
    ] = None,
) -> None:
    """Write measurements as event files for TensorBoard.

    Each worker of each attempt is a run. A second call adds what is new.
    """
    written = write_event_files(runtime, runtime.access, name, logdir)
    command = shlex.join(["tensorboard", "--logdir", written.logdir])
    for line in written.missing:
        runtime.output.warn(line)
    if runtime.output.is_table:
        runtime.output.note(
            f"{count_text(written.runs, 'run')} in {written.logdir}, "
            f"{count_text(written.samples, 'sample')} added"
        )
        runtime.output.line(command)
    else:
        columns = ("logdir", "runs", "samples")
        fields = {column: getattr(written, column) for column in columns}
        runtime.output.fields({**fields, "command": command})
