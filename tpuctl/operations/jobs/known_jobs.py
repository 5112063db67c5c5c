"""The open jobs of a context as this machine knows them, for the line that every command may print.

Most commands only read a small file, and load no more modules for it. The bucket is asked when the
file names open jobs, no supervisor runs here, and the last answer is older than a minute.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tpuctl.errors import TpuctlError
from tpuctl.jobs.local import open_jobs, supervisor_lock
from tpuctl.jobs.local.open_jobs import OpenJobs

if TYPE_CHECKING:
    from tpuctl.store import Store

QUERY_TIMEOUT_S = 2.0
"""A bucket that takes longer is not waited for."""
CACHE_VALID_S = 60.0


def known_open_jobs(
    home: Path, context: str, now: Callable[[], float], open_store: Callable[[], "Store"]
) -> OpenJobs:
    """The open jobs of a context, with those that have no supervisor; waits 2 s at most."""
    known = open_jobs.load(home, context)
    if not known.jobs or supervisor_lock.is_locked(home, context):
        return OpenJobs()
    if 0 <= now() - known.looked_s < CACHE_VALID_S:
        return known
    return _query_in_time(home, context, now, open_store) or known


def _query_in_time(
    home: Path, context: str, now: Callable[[], float], open_store: Callable[[], "Store"]
) -> OpenJobs | None:
    """Ask the bucket for open jobs and cache the answer; None when it takes too long."""
    answers: list[OpenJobs] = []

    def ask() -> None:
        try:
            answers.append(_query_bucket(home, context, now, open_store()))
        except (TpuctlError, OSError, RuntimeError, ValueError):
            return  # the command itself has met the same trouble, or will

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(QUERY_TIMEOUT_S)
    return answers[0] if answers else None


def _query_bucket(home: Path, context: str, now: Callable[[], float], store: "Store") -> OpenJobs:
    from tpuctl.jobs.leases import heartbeat, lease

    leases = lease.list_leases(store, {})
    silent = heartbeat.unheld_leases(store, leases, supervisor_lock.host_id(home, context))
    answer = OpenJobs(
        jobs=tuple(sorted(held.job_id for held in leases)),
        silent=tuple(sorted(held.job_id for held in silent)),
        owners=tuple(sorted({held.owner for held in silent})),
        looked_s=now(),
    )
    open_jobs.replace_all(home, context, answer)
    return answer
