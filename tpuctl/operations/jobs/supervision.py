"""Who supervises jobs: this machine's supervisor, the jobs without one, the wait for an end."""

import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sequence

from tpuctl.errors import DeadlineError, TpuctlError
from tpuctl.jobs import client
from tpuctl.jobs.leases import heartbeat, lease
from tpuctl.jobs.leases.supervisor_scope import SupervisorScope
from tpuctl.jobs.local import open_jobs, supervisor_lock
from tpuctl.jobs.local.open_jobs import OpenJobs
from tpuctl.jobs.record import record_store, status_text
from tpuctl.jobs.secrets import job_secrets, secret_handover
from tpuctl.jobs.secrets.job_secrets import SERVICE
from tpuctl.jobs.submit import job_submission, notify_targets
from tpuctl.jobs.submit.job_submission import default_owner
from tpuctl.models.job import JobRecord
from tpuctl.operations.jobs.events import (
    JobChanged,
    JobNotice,
    JobRuntime,
    OtherOwnerUnsupervised,
    SecretsHandedOver,
    SupervisorRuns,
    Unsupervised,
)

POLL_S = 0.5
SUPERVISOR_CHECK_S = 30.0
"""Between two looks whether anybody looks after a job that is waited for."""


def start_supervisor(runtime: JobRuntime) -> Iterator[SupervisorRuns]:
    """Start a supervisor of the context on this machine, or wake the one that runs.

    Raises LocalIOError, TransientError when it does not come up.
    """
    home, name = runtime.home, runtime.context.name
    job_submission.ensure_supervisor(
        home, name, supervisor_lock.supervisor_argv(sys.executable, name)
    )
    yield SupervisorRuns(supervisor_lock.holder_pid(home, name))


def hand_to_supervisor(runtime: JobRuntime, job: JobRecord) -> Iterator[JobNotice]:
    """See that a supervisor runs here, and give it the job's secrets of this environment.

    Raises UsageError naming a variable that is not set, LocalIOError, and TransientError when no
    supervisor comes up or takes them.
    """
    yield from start_supervisor(runtime)
    values = job_secrets.resolve_values(
        job_secrets.references_to(job.spec.secrets, job_secrets.ENVIRONMENT), runtime.environ
    )
    values |= notify_targets.known_values(job.spec, runtime.environ)
    if values:
        secret_handover.hand_over(runtime.home, runtime.context.name, job.job_id, values)
        yield SecretsHandedOver(tuple(values))


def supervisor_command(owners: Iterable[str]) -> str:
    """The command that looks after the jobs of these owners."""
    wanted = set(owners)
    accept = "" if wanted <= {default_owner()} else f" --accept {','.join(sorted(wanted))}"
    return f"tpuctl supervisor run{accept}"


def unsupervised_jobs(runtime: JobRuntime, jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """The jobs of `jobs` that are not settled and have no supervisor, in the order of ids."""
    unsettled = [job for job in jobs if not job.is_settled]
    if not unsettled:
        return []
    alone = client.unsupervised_jobs(runtime.store(), runtime.home, runtime.context.name)
    return sorted((job for job in unsettled if job.job_id in alone), key=lambda job: job.job_id)


def check_supervised(
    runtime: JobRuntime, jobs: Sequence[JobRecord], *, are_all: bool = False
) -> Iterator[Unsupervised]:
    """Yield those of the jobs that have no supervisor, if there are any.

    `are_all` says that `jobs` are all of the bucket: which are open is kept on this machine then.
    """
    alone = unsupervised_jobs(runtime, jobs)
    if alone:
        yield Unsupervised(tuple(alone))
    if are_all:
        cache_open_jobs(runtime, jobs, alone)


def cache_open_jobs(
    runtime: JobRuntime, jobs: Sequence[JobRecord], silent: Sequence[JobRecord]
) -> None:
    """Write this machine's file of open jobs, for the line that other commands print."""
    home, name = runtime.home, runtime.context.name
    services = [each for each in open_jobs.load(home, name).jobs if each.startswith(SERVICE)]
    is_known = not services and not supervisor_lock.is_locked(home, name)
    known = OpenJobs(
        jobs=tuple(sorted([*services, *(job.job_id for job in jobs if not job.is_settled)])),
        silent=tuple(job.job_id for job in silent),
        owners=tuple(sorted({job.owner for job in silent})),
        # A supervisor of this machine may end at any moment: its jobs are looked at again then.
        # Who looks after services was not asked.
        looked_s=runtime.now() if is_known else 0.0,
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


def wait_until_settled(
    runtime: JobRuntime, job: JobRecord, timeout_s: float | None = None
) -> Generator[JobNotice, None, JobRecord]:
    """Wait for the end of a job, and yield each reason for which it waits.

    Raises DeadlineError after `timeout_s` seconds, while the job goes on; NotFoundError.
    """
    store, began_s = runtime.store(), time.monotonic()
    next_check_s, was_alone, shown_text = began_s, False, ""
    generation = None
    while True:
        newest = record_store.generation(store, job.job_id)
        if generation is None or newest != generation:
            stored = record_store.load(store, job.job_id)
            job, generation = stored.record, stored.generation
            if job.status_text != shown_text:
                shown_text = job.status_text
                yield JobChanged(job)
        if job.is_settled:
            return job
        if timeout_s is not None and time.monotonic() - began_s >= timeout_s:
            raise _deadline_error(runtime, job)
        if time.monotonic() >= next_check_s:
            next_check_s = time.monotonic() + SUPERVISOR_CHECK_S
            alone = list(check_supervised(runtime, [job]))
            if not was_alone:
                yield from alone
            was_alone = bool(alone)
        runtime.sleep(POLL_S)


def _deadline_error(runtime: JobRuntime, job: JobRecord) -> DeadlineError:
    hint = f"run: tpuctl job wait {job.job_id}"
    if unsupervised_jobs(runtime, [job]):
        hint = f"nobody looks after it; run: {supervisor_command({job.owner})}"
    is_or = "is still" if not job.is_ended else "is"
    text = status_text.current_status(job, runtime.now())
    return DeadlineError(f"job {job.job_id!r} {is_or} {job.state}: {text}", hint=hint)
