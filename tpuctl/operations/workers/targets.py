"""What a command runs on: the workers of a node, or of the slices that a job has now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tpuctl.errors import NotFoundError, PreconditionError
from tpuctl.jobs import client
from tpuctl.jobs.record import status_text
from tpuctl.jobs.workers import protocol
from tpuctl.models.job import Attempt, JobRecord
from tpuctl.models.node import Node, Worker
from tpuctl.models.worker_numbers import WorkerSlot, slot_variables, worker_variables
from tpuctl.operations.remote.fanout import WorkerReach, numbers_among
from tpuctl.operations.workers import access as worker_access

if TYPE_CHECKING:
    from tpuctl.api.ssh.keys import Access
    from tpuctl.api.tpu.tpu import TpuApi
    from tpuctl.store import Store


@dataclass(frozen=True, slots=True)
class CommandTarget:
    """The workers of one or more nodes, by their numbers, and what they are called to people."""

    noun: str
    """`node` or `job`: of the commands that hints name."""
    name: str
    reaches: tuple[WorkerReach, ...]
    variables: Sequence[Mapping[str, str]]
    """What a command finds in its environment, by the worker's number."""
    identity: tuple[str | float, ...]
    """What no other target shares, not even a later one of the same name."""
    note: Path
    """Where it is kept who failed, below the directory of a context."""
    within: tuple[str, ...] = ()
    """The command that runs another one where the program runs; none: the worker itself."""

    @property
    def nodes(self) -> list[Node]:
        """The nodes whose workers they are."""
        return [reach.node for reach in self.reaches]

    @property
    def workers(self) -> list[int]:
        """The numbers of the workers."""
        return [reach.first + each.worker_id for reach in self.reaches for each in reach.workers]

    def select(self, workers: str) -> CommandTarget:
        """Those of `all`, `0`, `1,4,6` or `1-3`; raises UsageError for one that is not there."""
        if workers == "all":
            return self
        owner = f"{self.noun} {self.name!r}"
        return self.narrow(numbers_among(len(self.variables), workers, owner))

    def narrow(self, numbers: Sequence[int]) -> CommandTarget:
        """The workers of these numbers alone, in that order on each node."""
        narrowed = (
            replace(reach, workers=_at(reach.node, [number - reach.first for number in numbers]))
            for reach in self.reaches
        )
        return replace(self, reaches=tuple(each for each in narrowed if each.workers))


def node_target(reach: WorkerReach) -> CommandTarget:
    """The workers of a node."""
    node = reach.node
    count = node.worker_count
    return CommandTarget(
        noun="node",
        name=node.name,
        reaches=(reach,),
        variables=[worker_variables(number, count) for number in range(count)],
        identity=(str(node.node_id), node.created_s),
        note=Path(node.zone, f"{node.name}.json"),
    )


def job_target(
    store: Store,
    api: TpuApi,
    access: Access,
    name: str,
    now_s: float,
    sleep: Callable[[float], None],
) -> CommandTarget:
    """The workers of the slices that a job has now, numbered as its program knows them.

    Raises NotFoundError, PreconditionError when it has none or its slice is another one's by now,
    PreemptedError.
    """
    job = client.describe(store, name)
    attempt = attempt_with_slices(job, now_s)
    reaches: list[WorkerReach] = []
    slots: list[WorkerSlot] = []
    for slice_id, node_name in enumerate(attempt.nodes):
        node, ours = _slice_of(api, access, job, attempt, node_name, sleep)
        reaches.append(WorkerReach(api, ours, node, node.workers, first=len(slots)))
        first = len(slots)
        slots += [
            WorkerSlot(first + each.worker_id, slice_id, each.worker_id) for each in node.workers
        ]
    sized = replace(attempt, worker_count=len(slots))
    return CommandTarget(
        noun="job",
        name=job.job_id,
        reaches=tuple(reaches),
        variables=[slot_variables(job.job_id, sized, slot) for slot in slots],
        identity=(job.job_id, attempt.number, *map(str, (each.node.node_id for each in reaches))),
        note=Path("jobs", f"{job.job_id}.json"),
        within=protocol.container_argv(job.job_id, attempt.number) if job.spec.image else (),
    )


def attempt_with_slices(job: JobRecord, now_s: float) -> Attempt:
    """The newest attempt of a job, whose slices are there; raises PreconditionError."""
    attempt = job.attempt
    if attempt is not None and attempt.is_usable:
        return attempt
    why = status_text.current_status(job, now_s)
    text = f"job {job.job_id!r} is {job.state} and has no slice now: {why}"
    verb = "logs" if job.is_ended else "describe"
    raise PreconditionError(text, hint=f"run: tpuctl job {verb} {job.job_id}")


def _slice_of(
    api: TpuApi,
    access: Access,
    job: JobRecord,
    attempt: Attempt,
    name: str,
    sleep: Callable[[float], None],
) -> tuple[Node, Access]:
    """A slice of an attempt, and the key that it lets in."""
    hint = f"run: tpuctl job describe {job.job_id}"
    try:
        node, ours = worker_access.accessible_node(api, access, attempt.zone, name, sleep)
    except NotFoundError as error:
        text = f"job {job.job_id!r} is {job.state} and has no slice now: node {name!r} is gone"
        raise PreconditionError(text, hint=hint) from error
    if attempt.node_ids and node.node_id not in attempt.node_ids:
        text = (
            f"node {name!r} is not the slice of job {job.job_id!r} any more: it was created again"
        )
        raise PreconditionError(text, hint=hint)
    return node, ours


def _at(node: Node, places: Sequence[int]) -> list[Worker]:
    return [node.workers[place] for place in places if 0 <= place < node.worker_count]
