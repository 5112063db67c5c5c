"""`tpuctl record -- COMMAND`: what a command says to the Cloud TPU API, on file."""

from pathlib import Path
from typing import Annotated

import typer

from tpuctl.cli.shell.runtime import Runtime
from tpuctl.operations.audit import api_recording


def record(
    runtime: Runtime,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="What to run.")],
    to: Annotated[
        Path, typer.Option(metavar="FILE", help="Where to write; must not exist.")
    ] = Path("cassette.jsonl"),
) -> None:
    """Run a command (tpuctl, gcloud) and write its Cloud TPU API traffic, redacted, to a file."""
    code, count = api_recording.record_traffic(
        command, to, runtime.context, runtime.environ, runtime.now
    )
    calls = "1 call" if count == 1 else f"{count} calls"
    runtime.output.note(f"{calls} recorded in {to}; read it before you give it away")
    raise typer.Exit(code)
