"""The one line at the end of every command when a job of the context has no live supervisor.

It costs nothing while this machine knows of no open job, or supervises them itself. Otherwise the
bucket is asked, for a moment and once a minute at most.
"""

import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import TpuctlError

if TYPE_CHECKING:
    from tpuctl.config import Context
    from tpuctl.jobs.local.unsettled import Unsettled

LOOK_S = 2.0
"""A bucket that takes longer is not waited for."""
FRESH_S = 60.0
SHOWN = 3


def warn(runtime: Runtime) -> None:
    """Say it, once: for commands that used a context, and never starting a cloud for it.

    The command has done its work: whatever happens here changes nothing of how it ended.
    """
    context: Context | None = runtime.__dict__.get("context")
    if context is None or runtime.supervision_told:
        return
    with suppress(TpuctlError, OSError, ValueError, KeyboardInterrupt):
        _warn(runtime, context)


def _warn(runtime: Runtime, context: "Context") -> None:
    from tpuctl.jobs.local import seat, unsettled

    runtime.supervision_told = True
    found = unsettled.known(runtime.home, context.name)
    if not found.jobs or seat.is_taken(runtime.home, context.name):
        return
    if not 0 <= runtime.now() - found.looked_s < FRESH_S:
        found = _asked(runtime, context.name) or found
    if found.silent:
        runtime.output.warn(
            f"no supervisor looks after {_listed(found)}; run: {command(found.owners)}"
        )


def _asked(runtime: Runtime, context: str) -> "Unsettled | None":
    """What the bucket tells in time, which is kept; None when it does not."""
    told: list[Unsettled] = []

    def ask() -> None:
        try:
            told.append(_look(runtime, context))
        except (TpuctlError, OSError, RuntimeError, ValueError):
            return  # the command itself has met the same trouble, or will

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(LOOK_S)
    return told[0] if told else None


def _look(runtime: Runtime, context: str) -> "Unsettled":
    from tpuctl.jobs.leases import heartbeat
    from tpuctl.jobs.leases.lease import leases
    from tpuctl.jobs.local import seat, unsettled

    store = runtime.store()
    found = leases(store, {})
    silent = heartbeat.unheld(store, found, seat.name(runtime.home, context))
    told = unsettled.Unsettled(
        jobs=tuple(sorted(lease.job_id for lease in found)),
        silent=tuple(sorted(lease.job_id for lease in silent)),
        owners=tuple(sorted({lease.owner for lease in silent})),
        looked_s=runtime.now(),
    )
    unsettled.seen(runtime.home, context, told)
    return told


def _listed(found: "Unsettled") -> str:
    more = len(found.silent) - SHOWN
    return ", ".join(found.silent[:SHOWN]) + (f" and {more} more jobs" if more > 0 else "")


def command(owners: Iterable[str]) -> str:
    """The command that looks after the jobs of these owners."""
    from tpuctl.jobs.submit.submit import default_owner

    told = set(owners)
    accept = "" if told <= {default_owner()} else f" --accept {','.join(sorted(told))}"
    return f"tpuctl supervisor run{accept}"
