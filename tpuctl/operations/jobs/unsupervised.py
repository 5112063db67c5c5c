"""Jobs that no supervisor looks after: which, whose, and the command that changes it."""

from collections.abc import Iterable, Iterator, Sequence

from tpuctl.errors import TpuctlError
from tpuctl.jobs import client
from tpuctl.jobs.leases import heartbeat, lease
from tpuctl.jobs.leases.supervisor_scope import SupervisorScope
from tpuctl.jobs.local import open_jobs, supervisor_lock
from tpuctl.jobs.local.open_jobs import OpenJobs
from tpuctl.jobs.submit.job_submission import default_owner
from tpuctl.models.job import JobRecord
from tpuctl.operations.jobs.events import JobRuntime, OtherOwnerUnsupervised, Unsupervised


def supervisor_command(owners: Iterable[str]) -> str:
    """The command that looks after the jobs of these owners."""
    wanted = set(owners)
    accept = "" if wanted <= {default_owner()} else f" --accept {','.join(sorted(wanted))}"
    return f"tpuctl supervisor run{accept}"


def unsupervised_jobs(runtime: JobRuntime, jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """Those of the jobs that are not settled and have no supervisor, by id."""
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
