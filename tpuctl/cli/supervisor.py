"""`tpuctl supervisor run`: look after the jobs of a context."""

import asyncio

import typer

from tpuctl.cli.options import Noun
from tpuctl.cli.runtime import Runtime

app = Noun("Look after the jobs of a context.")


@app.verb("run")
def run(ctx: typer.Context) -> None:
    """Bring my jobs of this context to their end; stops when there is none left."""
    from tpuctl.jobs import supervisor
    from tpuctl.jobs.submit import default_owner

    runtime = ctx.ensure_object(Runtime)
    asyncio.run(
        supervisor.run(
            runtime.outside,
            home=runtime.home,
            owner=default_owner(),
            say=runtime.output.note,
        )
    )
