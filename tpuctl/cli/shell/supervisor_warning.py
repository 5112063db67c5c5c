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
    from tpuctl.jobs.local.open_jobs import OpenJobs

QUERY_TIMEOUT_S = 2.0
"""A bucket that takes longer is not waited for."""
CACHE_VALID_S = 60.0
MOST_NAMED = 3


def warn_of_unsupervised_jobs(runtime: Runtime) -> None:
    """Say it, once: for commands that used a context, and never starting a cloud for it.

    The command has done its work: whatever happens here changes nothing of how it ended.
    """
    context: Context | None = runtime.__dict__.get("context")
    if context is None or runtime.supervisor_warned:
        return
    with suppress(TpuctlError, OSError, ValueError, KeyboardInterrupt):
        _warn(runtime, context)


def _warn(runtime: Runtime, context: "Context") -> None:
    from tpuctl.jobs.local import open_jobs, supervisor_lock

    runtime.supervisor_warned = True
    found = open_jobs.load(runtime.home, context.name)
    if not found.jobs or supervisor_lock.is_locked(runtime.home, context.name):
        return
    if not 0 <= runtime.now() - found.looked_s < CACHE_VALID_S:
        found = _query_in_time(runtime, context.name) or found
    if found.silent:
        runtime.output.warn(
            f"no supervisor looks after {_job_names(found)}; "
            f"run: {supervisor_command(found.owners)}"
        )


def _query_in_time(runtime: Runtime, context: str) -> "OpenJobs | None":
    """What the bucket tells in time, which is kept; None when it does not."""
    told: list[OpenJobs] = []

    def ask() -> None:
        try:
            told.append(_query_bucket(runtime, context))
        except (TpuctlError, OSError, RuntimeError, ValueError):
            return  # the command itself has met the same trouble, or will

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(QUERY_TIMEOUT_S)
    return told[0] if told else None


def _query_bucket(runtime: Runtime, context: str) -> "OpenJobs":
    from tpuctl.jobs.leases import heartbeat
    from tpuctl.jobs.leases.lease import list_leases
    from tpuctl.jobs.local import open_jobs, supervisor_lock

    store = runtime.store()
    found = list_leases(store, {})
    silent = heartbeat.unheld_leases(store, found, supervisor_lock.host_id(runtime.home, context))
    told = open_jobs.OpenJobs(
        jobs=tuple(sorted(lease.job_id for lease in found)),
        silent=tuple(sorted(lease.job_id for lease in silent)),
        owners=tuple(sorted({lease.owner for lease in silent})),
        looked_s=runtime.now(),
    )
    open_jobs.replace_all(runtime.home, context, told)
    return told


def _job_names(found: "OpenJobs") -> str:
    more = len(found.silent) - MOST_NAMED
    return ", ".join(found.silent[:MOST_NAMED]) + (f" and {more} more jobs" if more > 0 else "")


def supervisor_command(owners: Iterable[str]) -> str:
    """The command that looks after the jobs of these owners."""
    from tpuctl.jobs.submit.job_submission import default_owner

    told = set(owners)
    accept = "" if told <= {default_owner()} else f" --accept {','.join(sorted(told))}"
    return f"tpuctl supervisor run{accept}"
