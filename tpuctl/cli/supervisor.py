"""`tpuctl supervisor run`: look after the jobs of a context."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Sequence
from typing import Annotated

import typer

from tpuctl.cli.app import INTERRUPTED, TERMINATED, Terminated
from tpuctl.cli.shell.daemon_threads import use_daemon_threads
from tpuctl.cli.shell.options import Noun
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.supervisor_warning import supervisor_command
from tpuctl.errors import TpuctlError, UsageError

app = Noun("Look after the jobs of a context.")

EXIT_TIMEOUT_S = 3.0
END_SIGNALS: dict[signal.Signals, tuple[int, type[KeyboardInterrupt]]] = {
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
            help="Whose jobs, as `job describe` shows the owner; ada, or ada@*, stands for all "
            "of ada's machines. Without it: mine.",
        ),
    ] = None,
    stay: Annotated[
        bool, typer.Option("--stay", help="Go on when no job is left, for jobs to come.")
    ] = False,
) -> None:
    """Bring the jobs of this context to their end; stops when there is none left."""
    from tpuctl.jobs.leases.supervisor_scope import IDLE_EXIT_S, SupervisorScope
    from tpuctl.jobs.submit.job_submission import default_owner
    from tpuctl.jobs.supervisor import supervisor

    runtime = ctx.ensure_object(Runtime)
    runtime.supervisor_warned = True
    runtime.on_interrupt.append("jobs go on without it; take them over with: tpuctl supervisor run")
    accepts = parse_owners(accept) if accept is not None else (default_owner(),)
    duty = SupervisorScope(accepts, idle_exit_s=None if stay else IDLE_EXIT_S)
    run_until_signal(
        runtime, supervisor.run(runtime.outside, duty, home=runtime.home, say=runtime.output.note)
    )
    warn_of_skipped_owners(runtime, accepts)


def warn_of_skipped_owners(runtime: Runtime, accepts: Sequence[str]) -> None:
    """Say whose jobs nobody looks after, and this supervisor did not either."""
    from tpuctl.jobs.leases import heartbeat, lease
    from tpuctl.jobs.leases.supervisor_scope import SupervisorScope
    from tpuctl.jobs.local import supervisor_lock

    duty = SupervisorScope(tuple(accepts))
    store = runtime.store()
    place = supervisor_lock.host_id(runtime.home, runtime.context.name)
    try:
        alone = heartbeat.unheld_leases(store, lease.list_leases(store, {}), place)
    except TpuctlError:
        return  # it is a word more, and no duty
    left = sorted({each.owner for each in alone if not duty.has(each)})
    if left:
        runtime.output.warn(
            f"jobs of {', '.join(left)} have no supervisor, and this one left them alone; "
            f"run: {supervisor_command(left)}"
        )


def parse_owners(text: str) -> tuple[str, ...]:
    """What `--accept` says, where ada stands for ada@*; raises UsageError."""
    found = tuple(each.strip() for each in text.split(","))
    if not all(found):
        raise UsageError(
            f"--accept {text!r} names an owner that is empty",
            hint="write owners as `job describe` shows them: --accept ada@laptop,bob@desk",
        )
    return tuple(each if "@" in each or "*" in each else f"{each}@*" for each in found)


def run_until_signal(runtime: Runtime, supervising: Awaitable[None]) -> None:
    """Supervise until that ends, or a signal comes: then leave in order, and not for long.

    A second signal ends the process at once, after the same words. Raises KeyboardInterrupt.
    """
    heard: list[signal.Signals] = []
    before = {number: signal.getsignal(number) for number in END_SIGNALS}
    try:
        asyncio.run(_supervise_until_signal(runtime, supervising, heard))
    except asyncio.CancelledError:
        raise END_SIGNALS[heard[0]][1] from None
    finally:
        for number, handler in before.items():  # the loop leaves the system's own behind
            signal.signal(number, handler)


async def _supervise_until_signal(
    runtime: Runtime, supervising: Awaitable[None], heard: list[signal.Signals]
) -> None:
    """Run until a signal; leave by force when that takes too long."""
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    assert main is not None

    def end(number: signal.Signals) -> None:
        code = END_SIGNALS[number][0]
        if heard:
            _exit_now(runtime, code)
        heard.append(number)
        loop.call_later(EXIT_TIMEOUT_S, _exit_now, runtime, code)
        main.cancel()

    use_daemon_threads()
    for number in END_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup wants it
            loop.add_signal_handler(number, end, number)
    await supervising


def _exit_now(runtime: Runtime, code: int) -> None:
    """By force, though not without a word; the terminal may be gone."""
    try:
        runtime.output.interrupted(runtime.on_interrupt)
        runtime.out.flush()
        runtime.err.flush()
    finally:
        os._exit(code)
