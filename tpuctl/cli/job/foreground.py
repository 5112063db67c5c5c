"""`job submit --foreground`: this very process looks after the job, as long as it lives."""

from tpuctl.cli.job.details import show_jobs
from tpuctl.cli.job.submit import hand_over_secrets, start_supervisor
from tpuctl.cli.job.watch_job import add_cancel_note, add_unsupervised_note, wait_until_settled
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.supervisor import run_until_signal
from tpuctl.errors import LockedError
from tpuctl.jobs import client
from tpuctl.jobs.leases.supervisor_scope import SupervisorScope
from tpuctl.jobs.local import open_jobs
from tpuctl.jobs.secrets import job_secrets
from tpuctl.jobs.supervisor import supervisor
from tpuctl.models.job import JobRecord


def supervise_here(runtime: Runtime, job: JobRecord) -> None:
    """Supervise one job until it is settled; raises its error when it failed.

    Where a supervisor runs already, that one takes the job, and we wait.
    """
    add_cancel_note(runtime, job)
    store = runtime.outside.store
    add_unsupervised_note(runtime)
    try:
        run_until_signal(
            runtime,
            supervisor.run(
                runtime.outside,
                SupervisorScope((job.owner,), only=job.job_id),
                home=runtime.home,
                say=runtime.output.note,
                vault=job_secrets.SecretCache(job.seat, runtime.environ),
            ),
        )
    except LockedError:
        runtime.output.note("another supervisor runs here already: it takes the job, this waits")
        start_supervisor(runtime)
        hand_over_secrets(runtime, job)
        wait_until_settled(runtime, store, job, None)
    if open_jobs.load(runtime.home, runtime.context.name).jobs:
        start_supervisor(runtime)  # of jobs that were submitted while this place was taken
    ended = client.describe(store, job.job_id)
    show_jobs(runtime.output, [ended])
    if error := client.error_of(ended):
        raise error
