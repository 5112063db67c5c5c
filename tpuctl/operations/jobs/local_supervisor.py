"""The supervisor of a context on this machine: whether it runs, its jobs, and its end."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tpuctl.jobs.leases import heartbeat, lease
from tpuctl.jobs.local import supervisor_lock
from tpuctl.jobs.record import record_store
from tpuctl.models.job import JobRecord
from tpuctl.operations.jobs.events import JobRuntime


@dataclass(frozen=True, slots=True)
class LocalSupervisor:
    """The supervisor of a context on this machine; `pid` is None where none runs."""

    context: str
    pid: int | None
    since_s: float | None
    job_ids: tuple[str, ...]
    services: tuple[str, ...]
    """Names of the services in its care."""
    log: Path


def find_supervisor(runtime: JobRuntime, context: str) -> LocalSupervisor:
    """The supervisor of a context; the bucket is asked for its jobs only where one runs."""
    home = runtime.home
    pid = supervisor_lock.holder_pid(home, context)
    log = supervisor_lock.log_path(home, context)
    if pid is None:
        return LocalSupervisor(context, None, None, (), (), log)
    place = supervisor_lock.host_id(home, context)
    ours = [
        held
        for held in lease.list_leases(runtime.store(), {})
        if held.holder and heartbeat.host_id_of(held.holder) == place
    ]
    job_ids = tuple(held.job_id for held in ours if held.service is None)
    services = tuple(held.service for held in ours if held.service is not None)
    since_s = supervisor_lock.held_since_s(home, context)
    return LocalSupervisor(context, pid, since_s, job_ids, services, log)


def stop_supervisor(runtime: JobRuntime, found: LocalSupervisor) -> Sequence[JobRecord]:
    """End a supervisor in order, and return the jobs that go on without it.

    Raises DeadlineError when it does not end.
    """
    supervisor_lock.stop_supervisor(runtime.home, found.context)
    jobs = [record_store.load(runtime.store(), job_id).record for job_id in found.job_ids]
    return [job for job in jobs if not job.is_settled]
