"""The one line at the end of every command when a job of the context has no live supervisor."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import TpuctlError

if TYPE_CHECKING:
    from tpuctl.config import Context

MOST_NAMED = 3


def warn_of_unsupervised_jobs(runtime: Runtime) -> None:
    """Warn once after a command that used a context; no local cloud is started for it.

    The command has done its work: whatever happens here does not change its exit code.
    """
    context: Context | None = runtime.__dict__.get("context")
    if context is None or runtime.supervisor_warned:
        return
    with suppress(TpuctlError, OSError, ValueError, KeyboardInterrupt):
        from tpuctl.operations.jobs.known_jobs import known_open_jobs

        runtime.supervisor_warned = True
        known = known_open_jobs(runtime.home, context.name, runtime.now, runtime.store)
        if known.silent:
            from tpuctl.operations.jobs.supervision import supervisor_command

            names, command = _job_names(known.silent), supervisor_command(known.owners)
            runtime.output.warn(f"no supervisor looks after {names}; run: {command}")


def _job_names(job_ids: Sequence[str]) -> str:
    more = len(job_ids) - MOST_NAMED
    return ", ".join(job_ids[:MOST_NAMED]) + (f" and {more} more jobs" if more > 0 else "")
