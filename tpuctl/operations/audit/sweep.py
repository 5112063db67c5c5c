"""What there is in a project and whose it is: a job's, nobody's any more, or a person's own.

An orphan carries the id of a job of this bucket whose record was read and says that it has ended.
What cannot be read is unknown, and what carries no job's id was made by hand: neither is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from tpuctl.errors import NotFoundError, TpuctlError
from tpuctl.jobs import client
from tpuctl.jobs.leases import lease
from tpuctl.jobs.record import record_store
from tpuctl.jobs.slices.slice_api import LABEL
from tpuctl.jobs.submit.job_submission import default_owner
from tpuctl.models.job import JobRecord, Teardown
from tpuctl.models.node import LOST_STATES, Node, NodeState, Provisioning
from tpuctl.models.queued_resource import ENDED_STATES, QueuedResource, QueuedResourceState
from tpuctl.operations.slices import cost, quota_advice
from tpuctl.operations.slices.flex_start import with_flex_start

if TYPE_CHECKING:
    from tpuctl.api.tpu.tpu import TpuApi
    from tpuctl.store import Store

LEAVING_STATES = frozenset({NodeState.DELETING, QueuedResourceState.DELETING})
UNBILLED_STATES = frozenset({NodeState.STOPPED, NodeState.DELETING, *LOST_STATES})
UNSEEN = "UNKNOWN"
"""The state of what could not be asked for."""


class Ownership(StrEnum):
    """Whose a slice is, in the order in which people are told."""

    ORPHAN = "orphan"
    UNKNOWN = "unknown"
    OTHERS = "other-owner"
    """An orphan, of somebody else's job."""
    BY_HAND = "by-hand"
    LEAVING = "leaving"
    """Somebody deletes it already."""
    IN_USE = "in-use"


@dataclass(frozen=True, slots=True)
class Holding:
    """A queued resource with its nodes, or a node without one."""

    noun: str
    name: str
    zone: str
    accelerator_type: str
    state: str
    provisioning: str
    created_s: float
    job_id: str | None
    slices: int = 1
    nodes: tuple[Node, ...] = ()
    """Those that exist."""
    never_granted: bool = False
    """It failed for want of quota, and so holds none."""

    @property
    def usd_per_hour(self) -> float | None:
        """USD per hour of its nodes now; None where no price is known."""
        prices = [
            cost.usd_per_hour(node.accelerator_type, node.zone, node.provisioning)
            for node in self.nodes
            if node.state not in UNBILLED_STATES
        ]
        return None if None in prices else sum(filter(None, prices), 0.0)

    @property
    def holds(self) -> str | None:
        """The quota that it holds for nothing: `16 chips`."""
        dead = sum(node.state in LOST_STATES for node in self.nodes)
        if self.state in ENDED_STATES and not self.never_granted:
            dead += self.slices - len(self.nodes)
        return quota_advice.quota_text(self.accelerator_type, dead)

    @property
    def node_ids(self) -> frozenset[int]:
        """The ids of its nodes, which later nodes of the same names do not share."""
        return frozenset(node.node_id for node in self.nodes)


@dataclass(frozen=True, slots=True)
class ClassifiedHolding:
    """A holding, whose it is, and the reason."""

    holding: Holding
    verdict: Ownership
    why: str
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class JobRecords:
    """The records of the jobs that matter for a sweep, and what could not be read."""

    records: Mapping[str, JobRecord] = field(default_factory=dict)
    troubles: Mapping[str, str] = field(default_factory=dict)
    """Why a record cannot be read, by job."""
    error: TpuctlError | None = None
    """The bucket itself cannot be read."""

    def job_using(self, holding: Holding) -> JobRecord | None:
        """The unfinished job that runs on it, whoever made it."""
        names = {node.name for node in holding.nodes} | {holding.name}
        return next(
            (
                each
                for each in self.records.values()
                if not each.is_ended and each.zone == holding.zone and names & _used_by(each)
            ),
            None,
        )


@dataclass(frozen=True, slots=True)
class SweepScope:
    """Who sweeps, and whose orphans count."""

    owner: str
    all_owners: bool = False
    tended: frozenset[str] = frozenset()
    """Jobs that a live supervisor looks after: it deletes what they leave."""


def sweep_scope(
    store: Callable[[], Store], home: Path, context: str, *, all_owners: bool
) -> SweepScope:
    """The scope of this user, with the jobs that live supervisors look after.

    Where the bucket cannot be read there are none: `read_job_records` reports that error.
    """
    try:
        tended = client.supervised_jobs(store(), home, context)
    except TpuctlError:
        tended = frozenset()
    return SweepScope(default_owner(), all_owners, tended)


def list_holdings(api: TpuApi, zone: str) -> tuple[list[Holding], list[str]]:
    """All holdings of a zone, or of all zones (`-`), and the zones that did not answer."""
    nodes, missed = api.read_nodes(zone)
    requests, missed_too = api.list_queued_resources(zone)
    known = {(each.zone, each.name) for each in requests}
    of: dict[tuple[str, str], list[Node]] = {}
    for node in with_flex_start(api, nodes):
        of.setdefault((node.zone, node.queued_resource or ""), []).append(node)
    found = [
        request_holding(each, of.get((each.zone, each.name), []))
        for each in with_flex_start(api, requests)
    ]
    alone = [node for key, group in of.items() if key not in known for node in group]
    return [*found, *map(node_holding, alone)], sorted({*missed, *missed_too})


def request_holding(request: QueuedResource, nodes: Sequence[Node]) -> Holding:
    """A queued resource and the nodes of it that exist."""
    return Holding(
        noun="qr",
        name=request.name,
        zone=request.zone,
        accelerator_type=request.accelerator_type,
        state=request.state,
        provisioning=request.provisioning,
        created_s=request.created_s,
        job_id=request.labels.get(LABEL),
        slices=request.node_count,
        nodes=tuple(nodes),
        never_granted="quota" in (request.failure or "").lower(),
    )


def node_holding(node: Node) -> Holding:
    """A node that no queued resource owns."""
    return Holding(
        noun="node",
        name=node.name,
        zone=node.zone,
        accelerator_type=node.accelerator_type,
        state=node.state,
        provisioning=node.provisioning,
        created_s=node.created_s,
        job_id=node.labels.get(LABEL),
        nodes=(node,),
    )


def read_job_records(store: Callable[[], Store], job_ids: Iterable[str]) -> JobRecords:
    """The records of these jobs and of every unsettled one; never raises TpuctlError."""
    try:
        bucket = store()
        wanted = {*job_ids, *(key.removeprefix(lease.LEASES) for key in _keys(bucket))}
    except TpuctlError as error:
        return JobRecords(error=error)
    records: dict[str, JobRecord] = {}
    troubles: dict[str, str] = {}
    for job_id in sorted(wanted):
        try:
            records[job_id] = record_store.load(bucket, job_id).record
        except NotFoundError:
            missing = f"this bucket has no record of job {job_id}"
            troubles[job_id] = f"{missing}: another bucket's, or lost"
        except TpuctlError as error:
            troubles[job_id] = str(error)
    return JobRecords(records, troubles)


def classify(holding: Holding, books: JobRecords, asker: SweepScope) -> ClassifiedHolding:
    """Decide whose a holding is, from the records of the jobs."""
    job_id = holding.job_id
    if user := books.job_using(holding):
        return ClassifiedHolding(
            holding, Ownership.IN_USE, f"job {user.job_id} is {user.state}", user.owner
        )
    if job_id is None:
        return ClassifiedHolding(holding, Ownership.BY_HAND, "no job made it")
    if books.error is not None:
        return ClassifiedHolding(
            holding, Ownership.UNKNOWN, f"the bucket cannot be read: {books.error}"
        )
    job = books.records.get(job_id)
    if job is None:
        why = books.troubles.get(job_id, f"the record of {job_id} was not read")
        return ClassifiedHolding(holding, Ownership.UNKNOWN, why)
    return _of_job(holding, job, asker)


def unseen_holdings(books: JobRecords, zones: Iterable[str]) -> Iterator[ClassifiedHolding]:
    """Holdings that should exist by the records, in zones that did not answer."""
    away = frozenset(zones)
    for job in books.records.values():
        kind = Provisioning.SPOT if job.spec.resources.use_spot else Provisioning.ON_DEMAND
        names = {
            (each.zone, each.queued_resource)
            for each in job.attempts
            if each.owned and each.deleted_s is None and each.zone in away
        }
        for zone, name in sorted((zone, name) for zone, name in names if name):
            holding = Holding(
                "qr", name, zone, job.accelerator_type, UNSEEN, kind, job.submitted_s, job.job_id
            )
            yield ClassifiedHolding(holding, Ownership.UNKNOWN, f"{zone} did not answer", job.owner)


def survey_project(
    api: TpuApi, store: Callable[[], Store], asker: SweepScope, zone: str
) -> tuple[list[ClassifiedHolding], list[str], JobRecords]:
    """All holdings classified, orphans first; the zones that did not answer; the job records."""
    holdings, missed = list_holdings(api, zone)
    books = read_job_records(store, {each.job_id for each in holdings if each.job_id})
    found = [
        ClassifiedHolding(each, Ownership.UNKNOWN, f"{each.zone} did not answer")
        if each.zone in missed
        else classify(each, books, asker)
        for each in holdings
    ]
    seen = {(each.zone, each.name) for each in holdings}
    found += [
        each
        for each in unseen_holdings(books, missed)
        if (each.holding.zone, each.holding.name) not in seen
    ]
    order = list(Ownership)
    found.sort(key=lambda each: (order.index(each.verdict), each.holding.zone, each.holding.name))
    return found, missed, books


def _of_job(holding: Holding, job: JobRecord, asker: SweepScope) -> ClassifiedHolding:
    """Classify a holding that carries the id of a job whose record was read."""
    if holding.state in LEAVING_STATES:
        return ClassifiedHolding(holding, Ownership.LEAVING, "it is being deleted", job.owner)
    unwanted = holding.name in job.unwanted
    if unwanted and (not job.is_ended or job.job_id in asker.tended):
        return ClassifiedHolding(holding, Ownership.LEAVING, "its supervisor deletes it", job.owner)
    said = f"job {job.job_id} is {job.state}"
    if not job.is_ended:
        return ClassifiedHolding(holding, Ownership.IN_USE, said, job.owner)
    kept = job.spec.teardown != Teardown.ALWAYS and not unwanted
    why = f"{said}; kept by teardown: {job.spec.teardown}" if kept else said
    is_ours = asker.all_owners or job.owner == asker.owner
    return ClassifiedHolding(
        holding, Ownership.ORPHAN if is_ours else Ownership.OTHERS, why, job.owner
    )


def _keys(store: Store) -> list[str]:
    return [entry.key for entry in store.list(lease.LEASES)]


def _used_by(job: JobRecord) -> set[str | None]:
    """The names of nodes and requests that an unfinished job uses or is about to use."""
    attempt = job.attempt
    return {job.node, *((*attempt.nodes, attempt.queued_resource) if attempt else ())}
