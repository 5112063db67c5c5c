"""`tpuctl supervisor run`: look after the jobs of a context."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor

import typer

from tpuctl.cli.app import INTERRUPTED, TERMINATED, Terminated
from tpuctl.cli.options import Noun
from tpuctl.cli.runtime import Runtime

app = Noun("Look after the jobs of a context.")

LEAVE_WITHIN_S = 3.0
ENDING = {signal.SIGTERM: (TERMINATED, Terminated), signal.SIGINT: (INTERRUPTED, KeyboardInterrupt)}
"""The signals that end a supervisor: the exit code, and what the command line knows it by."""


@app.verb("run")
def run(ctx: typer.Context) -> None:
    """Bring my jobs of this context to their end; stops when there is none left."""
    from tpuctl.jobs import supervisor
    from tpuctl.jobs.submit import default_owner

    runtime = ctx.ensure_object(Runtime)
    supervising = supervisor.run(
        runtime.outside,
        home=runtime.home,
        owner=default_owner(),
        say=runtime.output.note,
    )
    heard: list[signal.Signals] = []
    try:
        asyncio.run(_until_told(supervising, heard))
    except asyncio.CancelledError:
        raise ENDING[heard[0]][1] from None


class Abandoned(ThreadPoolExecutor):
    """Threads that nobody waits for: one may be in a request to a service that is gone."""

    def shutdown(self, *_how: bool, **_named: bool) -> None:
        """Let them be; the process ends without them."""
        super().shutdown(wait=False, cancel_futures=True)


async def _until_told(supervising: Awaitable[None], heard: list[signal.Signals]) -> None:
    """Run until a signal; leave by force when that takes too long."""
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    assert main is not None

    def end(number: signal.Signals) -> None:
        if not heard:
            loop.call_later(LEAVE_WITHIN_S, _leave, ENDING[number][0])
            main.cancel()
        heard.append(number)

    loop.set_default_executor(Abandoned())
    for number in ENDING:
        loop.add_signal_handler(number, end, number)
    await supervising


def _leave(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
