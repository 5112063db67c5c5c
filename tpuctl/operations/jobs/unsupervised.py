"""Jobs that no supervisor looks after: which, whose, and the command that changes it.

Most commands only read a small file of this machine. The bucket is asked when the file names open
jobs, no supervisor runs here, and the last answer is older than a minute. Every command comes
through here, so that what only an answer needs is imported with it.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tpuctl.errors import TpuctlError
from tpuctl.jobs.leases import heartbeat, lease
from tpuctl.jobs.leases.supervisor_scope import SupervisorScope
from tpuctl.jobs.local import open_jobs, supervisor_lock
from tpuctl.jobs.local.open_jobs import OpenJobs
from tpuctl.models.job import JobRecord
from tpuctl.operations.jobs.events import JobRuntime, OtherOwnerUnsupervised, Unsupervised
from tpuctl.store import Store

QUERY_TIMEOUT_S = 2.0
"""A bucket that takes longer is not waited for."""
CACHE_VALID_S = 60.0


def supervisor_command(owners: Iterable[str]) -> str:
    """The command that looks after the jobs of these owners."""
    from tpuctl.jobs.submit.job_submission import default_owner

    wanted = set(owners)
    accept = "" if wanted <= {default_owner()} else f" --accept {','.join(sorted(wanted))}"
    return f"tpuctl supervisor run{accept}"


def unsupervised_jobs(runtime: JobRuntime, jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """Those of the jobs that are not settled and have no supervisor, by id."""
    from tpuctl.jobs import client

    unsettled = [job for job in jobs if not job.is_settled]
    if not unsettled:
        return []
    alone = client.unsupervised_jobs(runtime.store(), runtime.home, runtime.context.name)
    return sorted((job for job in unsettled if job.job_id in alone), key=lambda job: job.job_id)


def check_supervised(runtime: JobRuntime, jobs: Sequence[JobRecord]) -> Iterator[Unsupervised]:
    """Yield those of the jobs that have no supervisor, if there are any."""
    if alone := unsupervised_jobs(runtime, jobs):
        yield Unsupervised(tuple(alone))


def check_and_cache(runtime: JobRuntime, jobs: Sequence[JobRecord]) -> Iterator[Unsupervised]:
    """Do the same for all jobs of the bucket, and keep which of them are open."""
    alone = unsupervised_jobs(runtime, jobs)
    if alone:
        yield Unsupervised(tuple(alone))
    cache_open_jobs(runtime, jobs, alone)


def cache_open_jobs(
    runtime: JobRuntime, jobs: Sequence[JobRecord], silent: Sequence[JobRecord]
) -> None:
    """Write this machine's file of open jobs, for the line that other commands print."""
    home, name = runtime.home, runtime.context.name
    known = OpenJobs(
        jobs=tuple(sorted(job.job_id for job in jobs if not job.is_settled)),
        silent=tuple(job.job_id for job in silent),
        owners=tuple(sorted({job.owner for job in silent})),
        # A supervisor of this machine may end at any moment: its jobs are looked at anew then.
        looked_s=0.0 if supervisor_lock.is_locked(home, name) else runtime.now(),
    )
    open_jobs.replace_all(home, name, known)


def check_other_owners(
    runtime: JobRuntime, jobs: Sequence[JobRecord]
) -> Iterator[OtherOwnerUnsupervised]:
    """Yield each unsettled job of somebody else that no supervisor looks after."""
    from tpuctl.jobs import client
    from tpuctl.jobs.submit.job_submission import default_owner

    home, context = runtime.home, runtime.context.name
    for job in jobs:
        if job.owner == default_owner() or job.is_settled:
            continue
        if client.supervisor_of(runtime.store(), home, context, job.job_id) is None:
            yield OtherOwnerUnsupervised(job)


def skipped_owners(runtime: JobRuntime, accepts: Sequence[str]) -> list[str]:
    """Owners of unsupervised jobs that a supervisor for `accepts` leaves alone.

    Empty where the bucket cannot be read: the answer only adds a warning.
    """
    scope, store = SupervisorScope(tuple(accepts)), runtime.store()
    place = supervisor_lock.host_id(runtime.home, runtime.context.name)
    try:
        alone = heartbeat.unheld_leases(store, lease.list_leases(store, {}), place)
    except TpuctlError:
        return []
    return sorted({held.owner for held in alone if not scope.has(held)})


def known_open_jobs(
    home: Path, context: str, now: Callable[[], float], open_store: Callable[[], Store]
) -> OpenJobs:
    """The open jobs of a context, with those that have no supervisor; waits 2 s at most."""
    known = open_jobs.load(home, context)
    if not known.jobs or supervisor_lock.is_locked(home, context):
        return OpenJobs()
    if 0 <= now() - known.looked_s < CACHE_VALID_S:
        return known
    return _query_in_time(home, context, now, open_store) or known


def _query_in_time(
    home: Path, context: str, now: Callable[[], float], open_store: Callable[[], Store]
) -> OpenJobs | None:
    """What the bucket answers in time, which is kept; None when it does not."""
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


def _query_bucket(home: Path, context: str, now: Callable[[], float], store: Store) -> OpenJobs:
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
