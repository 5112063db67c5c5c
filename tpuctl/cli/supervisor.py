"""`tpuctl supervisor run`: look after the jobs of a context."""

import asyncio
import os
import signal
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import typer

from tpuctl.cli.app import INTERRUPTED, TERMINATED, Terminated
from tpuctl.cli.options import Noun
from tpuctl.cli.runtime import Runtime
from tpuctl.errors import UsageError

app = Noun("Look after the jobs of a context.")

LEAVE_WITHIN_S = 3.0
THREADS = 64
"""A call to a service that hangs holds one of them; heartbeats must not wait for it."""
ENDING: dict[signal.Signals, tuple[int, type[KeyboardInterrupt]]] = {
    signal.SIGTERM: (TERMINATED, Terminated),
    signal.SIGHUP: (TERMINATED, Terminated),
    signal.SIGINT: (INTERRUPTED, KeyboardInterrupt),
}
"""The signals that end a supervisor: the exit code, and what the command line knows it by."""


@app.verb("run")
def run(
    ctx: typer.Context,
    accept: Annotated[
        str | None,
        typer.Option(
            metavar="OWNER[,OWNER...]",
            help="Whose jobs, as `job describe` shows the owner; ada@* stands for all of ada's "
            "machines. Without it: mine.",
        ),
    ] = None,
    stay: Annotated[
        bool, typer.Option("--stay", help="Go on when no job is left, for jobs to come.")
    ] = False,
) -> None:
    """Bring the jobs of this context to their end; stops when there is none left."""
    from tpuctl.jobs import supervisor
    from tpuctl.jobs.duty import IDLE_EXIT_S, Duty
    from tpuctl.jobs.submit import default_owner

    runtime = ctx.ensure_object(Runtime)
    runtime.supervision_told = True
    runtime.goes_on.append("jobs go on without it; take them over with: tpuctl supervisor run")
    accepts = owners(accept) if accept is not None else (default_owner(),)
    duty = Duty(accepts, idle_exit_s=None if stay else IDLE_EXIT_S)
    until_told(
        runtime, supervisor.run(runtime.outside, duty, home=runtime.home, say=runtime.output.note)
    )


def owners(text: str) -> tuple[str, ...]:
    """What `--accept` says; raises UsageError."""
    found = tuple(each.strip() for each in text.split(","))
    if not all(found):
        raise UsageError(
            f"--accept {text!r} names an owner that is empty",
            hint="write owners as `job describe` shows them: --accept ada@laptop,bob@desk",
        )
    return found


def until_told(runtime: Runtime, supervising: Awaitable[None]) -> None:
    """Supervise until that ends, or a signal comes: then leave in order, and not for long.

    A second signal ends the process at once, after the same words. Raises KeyboardInterrupt.
    """
    heard: list[signal.Signals] = []
    before = {number: signal.getsignal(number) for number in ENDING}
    try:
        asyncio.run(_until_told(runtime, supervising, heard))
    except asyncio.CancelledError:
        raise ENDING[heard[0]][1] from None
    finally:
        for number, handler in before.items():  # the loop leaves the system's own behind
            signal.signal(number, handler)


class Abandoned(ThreadPoolExecutor):
    """Threads that nobody waits for: one may be in a request to a service that is gone."""

    def shutdown(self, *_how: bool, **_named: bool) -> None:
        """Let them be; the process ends without them."""
        super().shutdown(wait=False, cancel_futures=True)


async def _until_told(
    runtime: Runtime, supervising: Awaitable[None], heard: list[signal.Signals]
) -> None:
    """Run until a signal; leave by force when that takes too long."""
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    assert main is not None

    def end(number: signal.Signals) -> None:
        code = ENDING[number][0]
        if heard:
            _leave(runtime, code)
        heard.append(number)
        loop.call_later(LEAVE_WITHIN_S, _leave, runtime, code)
        main.cancel()

    loop.set_default_executor(Abandoned(THREADS))
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup wants it
            loop.add_signal_handler(number, end, number)
    await supervising


def _leave(runtime: Runtime, code: int) -> None:
    """By force, though not without a word; the terminal may be gone."""
    try:
        runtime.output.interrupted(runtime.goes_on)
        runtime.out.flush()
        runtime.err.flush()
    finally:
        os._exit(code)
