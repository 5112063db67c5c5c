"""What people ask about jobs: the list of them, one with all its details, how it ended."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from tpuctl.errors import DamagedStateError, NotFoundError, UsageError
from tpuctl.jobs import client
from tpuctl.jobs.leases import job_steps
from tpuctl.jobs.policy import attempt_end, budget, zones
from tpuctl.jobs.record import record_store, status_text
from tpuctl.jobs.services import service_store
from tpuctl.metrics.goodput.accounting import Goodput
from tpuctl.models.job import JobRecord, JobState
from tpuctl.operations.jobs.events import JobRuntime, Warned
from tpuctl.operations.slices import spending

ENDED_SHOWN = 20
"""As many as `gh run list` shows: a job that ended long ago is not in the way."""

worker_text = attempt_end.worker_text
current_status = status_text.current_status
place_text, places_of = zones.place_text, zones.places_of


@dataclass(frozen=True, slots=True)
class JobDetails:
    """A job, who looks after it, and what it has used up by the time `now_s`."""

    job: JobRecord
    now_s: float
    supervisor: client.SupervisorInfo | None
    bucket: str
    stacks: Sequence[str] = ()
    """URLs of the objects with the stacks of a hung run."""

    @property
    def logs(self) -> str:
        """The URL of the job's logs."""
        return f"gs://{self.bucket}/tpuctl/jobs/{self.job.job_id}/logs/"

    @property
    def spent(self) -> spending.Spending:
        """The slice hours and USD that the job has used."""
        return spending.spending_of(self.job, self.now_s)

    @property
    def goodput(self) -> Goodput:
        """Where the seconds and the dollars of the job went."""
        return spending.goodput_of(self.job, self.now_s)

    @property
    def budget(self) -> dict[str, float | None]:
        """The limits of the job in hours and USD, and how much of each is left."""
        given, price = self.job.spec.budget, self.job.usd_per_hour
        hours = budget.used_hours(self.job, self.now_s)
        return {
            "hours": given.hours,
            "usd": given.usd,
            "hours_left": _left(given.hours, hours),
            "usd_left": _left(given.usd, None if price is None else hours * price),
        }


def find_job(runtime: JobRuntime, name: str) -> JobRecord:
    """The job with an id, or the open or newest one with a name.

    Raises NotFoundError, and UsageError when several open jobs have the name.
    """
    return client.describe(runtime.store(), name)


def find_ending_job(runtime: JobRuntime, name: str) -> JobRecord:
    """The job to wait for; raises what `find_job` does, and UsageError for a service's name."""
    try:
        job = find_job(runtime, name)
        is_service = job.replica is not None and name != job.job_id
    except (NotFoundError, UsageError):
        if service_store.generation(runtime.store(), name) is None:
            raise
        is_service = True
    if is_service:
        raise UsageError(
            f"{name!r} is a service, which goes on until it is deleted",
            hint=f"run: tpuctl service describe {name}",
        )
    return job


def list_jobs(runtime: JobRuntime) -> Generator[Warned, None, list[JobRecord]]:
    """Every job of the context's bucket, the newest first; warns of unreadable records."""
    unreadable: list[DamagedStateError] = []
    jobs = client.list_jobs(runtime.store(), unreadable.append)
    for error in unreadable:
        yield Warned(str(error))
    return job_steps.with_newest_steps(runtime.store(), jobs)


def choose_jobs(
    jobs: Sequence[JobRecord], states: Sequence[str], owner: str | None
) -> list[JobRecord]:
    """The jobs in one of the states (all without any), and of the owner, `USER@HOST` or `USER`.

    Raises UsageError for a state that no job can be in.
    """
    wanted = {state.upper() for state in states}
    if unknown := sorted(wanted.difference(JobState)):
        known = ", ".join(JobState)
        raise UsageError(
            f"{unknown[0]!r} is not a state of jobs", hint=f"--state is one of {known}"
        )
    return [
        job
        for job in jobs
        if (not wanted or job.state in wanted)
        and (owner is None or owner in (job.owner, job.owner.partition("@")[0]))
    ]


def recent_jobs(jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """Every job that is not settled and the newest settled ones, in the same order."""
    settled = [job.job_id for job in jobs if job.is_settled]
    hidden = frozenset(settled[ENDED_SHOWN:])
    return [job for job in jobs if job.job_id not in hidden]


def load_details(runtime: JobRuntime, name: str) -> Generator[Warned, None, JobDetails]:
    """One job with its supervisor and its stacks; warns of a heartbeat that cannot be read."""
    store, bucket = runtime.store(), runtime.context.bucket
    (job,) = job_steps.with_newest_steps(store, [client.describe(store, name)])
    supervisor = None
    try:
        supervisor = client.supervisor_of(store, runtime.home, runtime.context.name, job.job_id)
    except DamagedStateError as error:
        yield Warned(str(error))
    folder = f"{record_store.job_directory(job.job_id)}/stacks/"
    stacks = [f"gs://{bucket}/{entry.key}" for entry in store.list(folder)]
    return JobDetails(job, runtime.now(), supervisor, bucket, stacks)


def end_command(job: JobRecord) -> str:
    """The command that ends a job for good: another one takes the place of a replica."""
    if job.replica is not None:
        return f"tpuctl service delete {job.replica.service}"
    return f"tpuctl job cancel {job.job_id}"


def require_success(job: JobRecord) -> None:
    """Raises the error that an ended job stands for, unless it succeeded."""
    if error := client.error_of(job):
        raise error


def _left(limit: float | None, used: float | None) -> float | None:
    return None if limit is None or used is None else round(max(0.0, limit - used), 4)
