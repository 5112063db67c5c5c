"""Watching a job from a terminal: what goes on when the person leaves, and its log to the end."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tpuctl.cli.shell.output import Usd
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.supervisor_warning import supervisor_command
from tpuctl.errors import DeadlineError
from tpuctl.models.job import JobRecord
from tpuctl.operations.slices import spending

if TYPE_CHECKING:
    from tpuctl.jobs.logs.log_lines import LogFilter
    from tpuctl.store import Store

UNSUPERVISED_NOTE = "nobody looks after it until somebody runs: tpuctl supervisor run"
SUPERVISOR_CHECK_S = 30.0
"""Between two looks whether anybody looks after a job that is waited for."""


def follow_until_ended(runtime: Runtime, job_id: str, wanted: "LogFilter | None" = None) -> None:
    """Print the log until the job has ended; raises its error when it failed."""
    from tpuctl.cli.job.log import follow_log
    from tpuctl.jobs import client
    from tpuctl.jobs.logs.log_lines import ALL_LINES

    outside = runtime.outside
    add_cancel_note(runtime, client.describe(outside.store, job_id))
    follow_log(runtime, outside, job_id, wanted or ALL_LINES)
    if error := client.error_of(client.describe(outside.store, job_id)):
        raise error


def wait_until_settled(
    runtime: Runtime, store: "Store", job: JobRecord, timeout_s: float | None
) -> JobRecord:
    """Wait for the end of a job, and tell what it waits for; raises DeadlineError."""
    from tpuctl.jobs import client
    from tpuctl.jobs.record import status_text

    told = ""
    looked_s = time.monotonic() - SUPERVISOR_CHECK_S
    alone = False

    def tell(found: JobRecord) -> None:
        nonlocal told
        if found.status_text != told:
            told = found.status_text
            runtime.output.note(
                f"{found.state}: {status_text.current_status(found, runtime.now())}"
            )

    def sleep(pause_s: float) -> None:
        nonlocal looked_s, alone
        if time.monotonic() - looked_s >= SUPERVISOR_CHECK_S:
            looked_s = time.monotonic()
            was_alone, alone = alone, bool(_unsupervised_jobs(runtime, store, [job]))
            if alone and not was_alone:
                warn_if_unsupervised(runtime, store, [job])
        runtime.sleep(pause_s)

    try:
        return client.wait(
            store,
            job.job_id,
            timeout_s=timeout_s,
            monotonic=time.monotonic,
            sleep=sleep,
            on_change=tell,
        )
    except DeadlineError as error:
        if _unsupervised_jobs(runtime, store, [job]):
            error.hint = f"nobody looks after it; run: {supervisor_command({job.owner})}"
        raise


def warn_if_unsupervised(
    runtime: Runtime, store: "Store", jobs: Sequence[JobRecord]
) -> list[JobRecord]:
    """Say so when nobody looks after jobs that are not over, and how to change that; which."""
    runtime.supervisor_warned = True
    found = _unsupervised_jobs(runtime, store, jobs)
    if found:
        names = ", ".join(job.job_id for job in found)
        owners = {job.owner for job in found}
        runtime.output.warn(f"no supervisor looks after {names}; run: {supervisor_command(owners)}")
    return found


def cache_open_jobs(
    runtime: Runtime, jobs: Sequence[JobRecord], silent: Sequence[JobRecord]
) -> None:
    """Keep which jobs of the bucket are open, for the one line that other commands say."""
    from tpuctl.jobs.local import open_jobs as unsettled
    from tpuctl.jobs.local import supervisor_lock

    home, name = runtime.home, runtime.context.name
    told = unsettled.OpenJobs(
        jobs=tuple(sorted(job.job_id for job in jobs if not job.is_settled)),
        silent=tuple(job.job_id for job in silent),
        owners=tuple(sorted({job.owner for job in silent})),
        # While they are in care here, nothing is learnt of who comes when that ends.
        looked_s=0.0 if supervisor_lock.is_locked(home, name) else runtime.now(),
    )
    unsettled.replace_all(home, name, told)


def _unsupervised_jobs(
    runtime: Runtime, store: "Store", jobs: Sequence[JobRecord]
) -> list[JobRecord]:
    """Those that are not settled and that nobody looks after, by name."""
    from tpuctl.jobs import client

    unsettled = [job for job in jobs if not job.is_settled]
    if not unsettled:
        return []
    alone = client.unsupervised_jobs(store, runtime.home, runtime.context.name)
    return sorted((j for j in unsettled if j.job_id in alone), key=lambda job: job.job_id)


def warn_of_other_owners(runtime: Runtime, store: "Store", jobs: Sequence[JobRecord]) -> None:
    """Say so when the supervisor here leaves a job alone, for it is somebody else's."""
    from tpuctl.jobs import client
    from tpuctl.jobs.submit.job_submission import default_owner

    home, context = runtime.home, runtime.context.name
    runtime.supervisor_warned = True
    for job in jobs:
        if job.owner == default_owner() or job.is_settled:
            continue
        if client.supervisor_of(store, home, context, job.job_id) is None:
            runtime.output.warn(
                f"{job.job_id} is {job.owner}'s, and no supervisor looks after it; "
                f"run: {supervisor_command({job.owner})}"
            )


def add_cancel_note(runtime: Runtime, job: JobRecord) -> None:
    """What to print when the person stops watching: the job is detached and goes on."""
    if job.is_settled:
        return
    usd = spending.usd_per_hour(job)
    when = "" if spending.has_slice(job) else " when READY"
    price = f" at {Usd(usd)} USD/h{when}" if usd is not None else ""
    told = f"job {job.job_id} goes on{price}; end it with: tpuctl job cancel {job.job_id}"
    if job.is_ended:
        told = f"job {job.job_id} is {job.state}; the teardown of its slice goes on{price}"
    before = [line for line in runtime.on_interrupt if not line.startswith(f"job {job.job_id} ")]
    runtime.on_interrupt[:] = [told, *before]


def add_unsupervised_note(runtime: Runtime) -> None:
    """And that nobody looks after it, as long as this is so."""
    if UNSUPERVISED_NOTE not in runtime.on_interrupt:
        runtime.on_interrupt.append(UNSUPERVISED_NOTE)


def remove_unsupervised_note(runtime: Runtime) -> None:
    """A supervisor has it now."""
    if UNSUPERVISED_NOTE in runtime.on_interrupt:
        runtime.on_interrupt.remove(UNSUPERVISED_NOTE)
