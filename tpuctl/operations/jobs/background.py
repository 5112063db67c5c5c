"""A supervisor in the background of this machine, and the secrets that it needs."""

import sys
from collections.abc import Iterator

from tpuctl.jobs.local import supervisor_lock
from tpuctl.jobs.secrets import job_secrets, secret_handover
from tpuctl.jobs.submit import job_submission
from tpuctl.models.job import JobRecord
from tpuctl.operations.jobs.events import JobNotice, JobRuntime, SecretsHandedOver, SupervisorRuns


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
    if values:
        secret_handover.hand_over(runtime.home, runtime.context.name, job.job_id, values)
        yield SecretsHandedOver(tuple(values))
