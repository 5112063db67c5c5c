"""`job submit --foreground`: this very process looks after the job, as long as it lives."""

from tpuctl.cli.job.details import show_jobs
from tpuctl.cli.job.submit import hand_over, supervised
from tpuctl.cli.job.watch import say_how_to_end, say_unattended, until_settled
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.supervisor import until_told
from tpuctl.errors import LockedError
from tpuctl.jobs import client
from tpuctl.jobs.leases.duty import Duty
from tpuctl.jobs.local import unsettled
from tpuctl.jobs.secrets import secrets
from tpuctl.jobs.supervisor import supervisor
from tpuctl.models.job import JobRecord


def supervise_here(runtime: Runtime, job: JobRecord) -> None:
    """Supervise one job until it is settled; raises its error when it failed.

    Where a supervisor runs already, that one takes the job, and we wait.
    """
    say_how_to_end(runtime, job)
    store = runtime.outside.store
    say_unattended(runtime)
    try:
        until_told(
            runtime,
            supervisor.run(
                runtime.outside,
                Duty((job.owner,), only=job.job_id),
                home=runtime.home,
                say=runtime.output.note,
                vault=secrets.Vault(job.seat, runtime.environ),
            ),
        )
    except LockedError:
        runtime.output.note("another supervisor runs here already: it takes the job, this waits")
        supervised(runtime)
        hand_over(runtime, job)
        until_settled(runtime, store, job, None)
    if unsettled.known(runtime.home, runtime.context.name).jobs:
        supervised(runtime)  # of jobs that were submitted while this place was taken
    ended = client.describe(store, job.job_id)
    show_jobs(runtime.output, [ended])
    if error := client.error_of(ended):
        raise error
