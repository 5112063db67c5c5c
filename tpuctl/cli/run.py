"""`tpuctl run FILE`: submit, follow, tear down."""

import typer

from tpuctl.cli.job import File, follow_to_the_end, submit_file
from tpuctl.cli.options import Verb
from tpuctl.cli.runtime import Runtime

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command("run", cls=Verb)
def run(ctx: typer.Context, file: File) -> None:
    """Submit a job and follow it to its end; its slice is torn down unless the file says else."""
    runtime = ctx.ensure_object(Runtime)
    follow_to_the_end(runtime, submit_file(runtime, file, None).job_id)
