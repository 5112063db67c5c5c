"""`tpuctl checkpoint ...`."""

from typing import Annotated

import typer

from tpuctl.cli.options import Noun
from tpuctl.cli.output import Moment
from tpuctl.cli.runtime import Runtime
from tpuctl.errors import NotFoundError

app = Noun("Look at checkpoints.")

COLUMNS = {
    "step": lambda one: one.step,
    "state": lambda one: one.state,
    "size_bytes": lambda one: one.size_bytes,
    "workers": lambda one: one.workers,
    "fence": lambda one: one.fence,
    "committed": lambda one: Moment(one.committed_s) if one.committed_s else None,
}


@app.verb("list")
def list_checkpoints(
    ctx: typer.Context,
    directory: Annotated[str, typer.Argument(metavar="gs://BUCKET/DIR", help="Or a local one.")],
) -> None:
    """List the steps of a checkpoint directory, and whether each can be restored."""
    from tpuctl.checkpoint import list_steps

    runtime = ctx.ensure_object(Runtime)
    steps = list_steps(runtime.store(directory))
    if not steps:
        raise NotFoundError(f"no checkpoint is in {directory}", hint="run: tpuctl data list")
    runtime.output.items(steps, COLUMNS)
