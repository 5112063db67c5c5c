"""Jobs as their records say, written where real ones lie; no supervisor looks after them."""

from dataclasses import replace
from pathlib import Path

from tpuctl.cli.shell.runtime import Runtime
from tpuctl.jobs.leases import lease
from tpuctl.jobs.record import record_store
from tpuctl.jobs.submit.job_submission import default_owner
from tpuctl.models.job import (
    Attempt,
    AttemptOutcome,
    AttemptState,
    JobRecord,
    JobSpec,
    JobState,
    Resources,
)
from tpuctl.store import Store

SPOT = Resources("v5litepod-16", use_spot=True)
T = 1_800_000_000.0
"""When all of it began."""
HOUR_S = 3600.0


def store_of(home: Path) -> Store:
    """The bucket of the context `local` of that home."""
    return Runtime(environ={"TPUCTL_HOME": str(home)}).store()


def attempt(number: int = 1, **changes) -> Attempt:
    """An attempt on a slice of its own that was preempted after an hour."""
    name = f"digits-1-a{number}"
    at_first = Attempt(
        number=number, zone="us-west4-a", node=name, state=AttemptState.ENDED, owned=True,
        queued_resource=name, node_ids=(4711 + number,), worker_count=2, requested_s=T,
        ready_s=T + 60, started_s=T + 120, ended_s=T + 60 + HOUR_S, deleted_s=T + 90 + HOUR_S,
        outcome=AttemptOutcome.PREEMPTED, reason=f"node {name} is PREEMPTED", last_step=100,
    )  # fmt: skip
    return replace(at_first, **changes)


def job(job_id: str = "digits-1", state: JobState = JobState.FAILED, **changes) -> JobRecord:
    """A spot v5litepod-16 in us-west4-a, mine, without attempts."""
    spec = JobSpec(job_id.rpartition("-")[0], "python3 train.py", resources=SPOT)
    at_first = JobRecord(
        job_id=job_id, spec=spec, owner=default_owner(), submitted_s=T, zone="us-west4-a",
        accelerator_type="v5litepod-16", state=state, why=f"it is {state}",
        ended_s=T + 2 * HOUR_S if state in ("SUCCEEDED", "FAILED", "CANCELLED") else None,
    )  # fmt: skip
    return replace(at_first, **changes)


def put(store: Store, found: JobRecord) -> JobRecord:
    """Write it, with the lease that an unsettled job has, held by nobody."""
    if not found.is_settled:
        lease.offer(store, found.job_id, found.owner)
    return record_store.create(store, found).record
