"""Supervise jobs in this process: all of some owners, or one job until it is settled."""

import math
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import replace
from functools import partial

from tpuctl.errors import LockedError, UsageError
from tpuctl.jobs import client
from tpuctl.jobs.interfaces import Backends
from tpuctl.jobs.leases.supervisor_scope import IDLE_EXIT_S, SupervisorScope
from tpuctl.jobs.local import open_jobs
from tpuctl.jobs.secrets import job_secrets
from tpuctl.jobs.submit.job_submission import default_owner
from tpuctl.jobs.supervisor import supervisor
from tpuctl.jobs.supervisor.job_pool import JobPool
from tpuctl.jobs.workers.sample_tail import AgentSample
from tpuctl.metrics.chip_state import ChipState, chip_use
from tpuctl.metrics.samples import Sample
from tpuctl.models.job import JobRecord
from tpuctl.models.node import Node
from tpuctl.models.operation import Operation
from tpuctl.operations.jobs import supervision
from tpuctl.operations.jobs.events import JobNotice, JobRuntime, Noted
from tpuctl.operations.slices.flex_start import with_flex_start

Say = Callable[[str], None]


def parse_owners(text: str | None) -> tuple[str, ...]:
    """The patterns of owners in `text`, where ada stands for ada@*; None: this user alone.

    Raises UsageError.
    """
    if text is None:
        return (default_owner(),)
    owners = tuple(owner.strip() for owner in text.split(","))
    if not all(owners):
        raise UsageError(
            f"--accept {text!r} names an owner that is empty",
            hint="write owners as `job describe` shows them: --accept ada@laptop,bob@desk",
        )
    return tuple(owner if "@" in owner or "*" in owner else f"{owner}@*" for owner in owners)


def supervise_owners(
    runtime: JobRuntime,
    accepts: Sequence[str],
    say: Say,
    *,
    stay: bool,
    on_pool: Callable[[JobPool], None] = lambda _pool: None,
) -> Awaitable[None]:
    """Supervise the jobs of some owners until none is left, or for good with `stay`.

    `on_pool` is called with the jobs in hand, before the first is taken.

    Raises LockedError when a supervisor of the context runs on this machine already.
    """
    scope = SupervisorScope(tuple(accepts), idle_exit_s=None if stay else IDLE_EXIT_S)

    def prepare(pool: JobPool) -> None:
        _watch_chips(pool)
        on_pool(pool)

    return supervisor.run(_backends(runtime), scope, home=runtime.home, say=say, on_pool=prepare)


def _backends(runtime: JobRuntime) -> Backends:
    """The clients of jobs, and what looks at the slices of the whole project."""
    return replace(runtime.outside, look=partial(_look, runtime))


def _look(runtime: JobRuntime) -> tuple[list[Node], list[str], list[Operation]]:
    """All nodes of the project, the zones that did not answer, and the operations."""
    tpu = runtime.tpu
    nodes, unreachable = tpu.read_nodes()
    return with_flex_start(tpu, nodes), unreachable, tpu.list_operations()


def _watch_chips(pool: JobPool) -> None:
    pool.chips_are_free = are_free


def are_free(sample: AgentSample) -> bool:
    """Whether no process held the chips of a worker as it was measured."""
    measured = Sample(sample.time_s, sample.values)
    return chip_use(measured, sample.time_s, math.inf).state == ChipState.FREE


def supervise_here(
    runtime: JobRuntime, job: JobRecord, run: Callable[[Awaitable[None]], None], say: Say
) -> Generator[JobNotice, None, JobRecord]:
    """Supervise one job in this process until it is settled; returns its last record.

    Where a supervisor runs already, that one takes the job, and this waits. `run` runs the
    supervisor and decides what a signal does; `say` gets what the supervisor does.
    """
    scope = SupervisorScope((job.owner,), only=job.job_id)
    secrets = job_secrets.SecretCache(job.host_id, runtime.environ)
    supervising = supervisor.run(
        _backends(runtime), scope, home=runtime.home, say=say, vault=secrets, on_pool=_watch_chips
    )
    try:
        run(supervising)
    except LockedError:
        yield Noted("another supervisor runs here already: it takes the job, this waits")
        yield from supervision.hand_to_supervisor(runtime, job)
        yield from supervision.wait_until_settled(runtime, job)
    if open_jobs.load(runtime.home, runtime.context.name).jobs:
        # Jobs that were submitted while this process held the lock.
        yield from supervision.start_supervisor(runtime)
    return client.describe(runtime.store(), job.job_id)
