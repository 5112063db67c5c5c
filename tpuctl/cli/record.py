"""`tpuctl record -- COMMAND`: what a command says to the Cloud TPU API, on file."""

from pathlib import Path
from typing import Annotated

import typer

from tpuctl import config
from tpuctl.cli.shell.options import Verb
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import TpuctlError
from tpuctl.operations.audit import api_recording as recording

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command("record", cls=Verb)
def record(
    ctx: typer.Context,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="What to run.")],
    to: Annotated[
        Path, typer.Option(metavar="FILE", help="Where to write; must not exist.")
    ] = Path("cassette.jsonl"),
) -> None:
    """Run a command (tpuctl, gcloud) and write its Cloud TPU API traffic, redacted, to a file."""
    from tpuctl.api import cassette

    runtime = ctx.ensure_object(Runtime)
    context = runtime.context
    tape = cassette.create(to, runtime.now(), context.project)
    with recording.recording_proxy(context.tpu_rest_endpoint, tape, runtime.now) as proxy:
        ours = {
            config.RECORD_VARIABLE: str(to.absolute()),
            config.TPU_OVERRIDE: f"{proxy}/",
            "TPUCTL_CONTEXT": context.name,
        }
        try:
            code = recording.record_command(command, {**runtime.environ, **ours})
        except TpuctlError:  # nothing ran, nothing is on it
            to.unlink()
            raise
    count = cassette.count_calls(to)
    calls = "1 call" if count == 1 else f"{count} calls"
    runtime.output.note(f"{calls} recorded in {to}; read it before you give it away")
    raise typer.Exit(code)
