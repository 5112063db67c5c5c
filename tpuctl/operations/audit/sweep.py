"""What there is in a project and whose it is: a job's, nobody's any more, or a person's own.

Orphans are deleted: each is read again just before, and left alone when anything has changed. What
a job was told to keep is deleted when it is named.

An orphan carries the id of a job of this bucket whose record was read and says that it has ended.
What cannot be read is unknown, and what carries no job's id was made by hand: neither is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tpuctl.api.tpu.hints import NODE, QR, CallSubject
from tpuctl.errors import NotFoundError, PreconditionError, TpuctlError, UsageError
from tpuctl.jobs import client
from tpuctl.jobs.leases import lease
from tpuctl.jobs.record import record_store
from tpuctl.jobs.submit.job_submission import default_owner
from tpuctl.models.job import JobRecord
from tpuctl.models.limits import slice_lifetime
from tpuctl.models.node import JOB_LABEL, LOST_STATES, Node, NodeState
from tpuctl.models.queued_resource import ENDED_STATES, QueuedResource, QueuedResourceState
from tpuctl.operations.slices import cost, quota_advice, wait
from tpuctl.operations.slices.flex_start import with_flex_start
from tpuctl.operations.slices.wait import Patience

if TYPE_CHECKING:
    from tpuctl.api.tpu.tpu import TpuApi
    from tpuctl.store import Store

LEAVING_STATES = frozenset({NodeState.DELETING, QueuedResourceState.DELETING})
UNBILLED_STATES = frozenset({NodeState.STOPPED, NodeState.DELETING, *LOST_STATES})
DELETED, GONE, LEFT, FAILED = "deleted", "gone", "left", "failed"
UNSEEN = "UNKNOWN"
"""The state of what could not be asked for."""


class Ownership(StrEnum):
    """Whose a slice is, in the order in which people are told."""

    ORPHAN = "orphan"
    OVERDUE = "overdue"
    """Its labels say that it should be gone: its TTL is over, or nobody has used it for long."""
    UNKNOWN = "unknown"
    OTHERS = "other-owner"
    """An orphan, of somebody else's job."""
    KEPT = "kept"
    """What an ended job keeps, by `teardown`: deleted only when it is named."""
    BY_HAND = "by-hand"
    LEAVING = "leaving"
    """Somebody deletes it already."""
    IN_USE = "in-use"


DELETED_UNNAMED = (Ownership.ORPHAN, Ownership.OVERDUE)
"""What `--fix` deletes without being told its name."""


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
class SweepReport:
    """Every slice that was found, the zones that did not answer, and the bucket's error."""

    found: Sequence[ClassifiedHolding] = ()
    unreachable: Sequence[str] = ()
    error: TpuctlError | None = None

    def of(self, verdict: str) -> list[ClassifiedHolding]:
        """The slices that were found with that verdict."""
        return [swept for swept in self.found if swept.verdict == verdict]

    def deletable(self, names: Sequence[str]) -> list[ClassifiedHolding]:
        """The orphans and what is overdue; with names those alone, and what a teardown keeps, too.

        Raises NotFoundError, PreconditionError for a name of something else.
        """
        if not names:
            return [each for each in self.found if each.verdict in DELETED_UNNAMED]
        return [self._deletable(name) for name in dict.fromkeys(names)]

    def _deletable(self, name: str) -> ClassifiedHolding:
        found = [each for each in self.found if each.holding.name == name]
        if not found:
            raise NotFoundError(f"no slice is named {name!r}", hint="run: tpuctl sweep")
        if len(found) > 1:
            zones = ", ".join(each.holding.zone for each in found)
            raise UsageError(f"{name!r} is in several zones: {zones}", hint="add --zone ZONE")
        if found[0].verdict not in (*DELETED_UNNAMED, Ownership.KEPT):
            text = f"{name!r} is {found[0].verdict}: {found[0].why}"
            noun = "qr" if found[0].holding.noun == QR else "node"
            raise PreconditionError(text, hint=f"to delete it anyway: tpuctl {noun} delete {name}")
        return found[0]

    def usd_per_hour(self) -> dict[str, float]:
        """The USD per hour of each verdict, where prices are known."""
        sums: dict[str, float] = {}
        for swept in self.found:
            usd = swept.holding.usd_per_hour or 0.0
            sums[swept.verdict.value] = sums.get(swept.verdict.value, 0.0) + usd
        return sums


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What became of an orphan: deleted, gone by itself, left alone, or failed; and why."""

    found: ClassifiedHolding
    outcome: str
    why: str = ""


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
    known = {(request.zone, request.name) for request in requests}
    by_request: dict[tuple[str, str], list[Node]] = {}
    for node in with_flex_start(api, nodes):
        by_request.setdefault((node.zone, node.queued_resource or ""), []).append(node)
    holdings = [
        request_holding(request, by_request.get((request.zone, request.name), []))
        for request in with_flex_start(api, requests)
    ]
    alone = [node for key, group in by_request.items() if key not in known for node in group]
    holdings += [_holding(NODE, node, [node]) for node in alone]
    return holdings, sorted({*missed, *missed_too})


def request_holding(request: QueuedResource, nodes: Sequence[Node]) -> Holding:
    """A queued resource and the nodes of it that exist."""
    holding = _holding(QR, request, nodes)
    never_granted = "quota" in (request.failure or "").lower()
    return replace(holding, slices=request.node_count, never_granted=never_granted)


def _holding(noun: str, item: Node | QueuedResource, nodes: Sequence[Node]) -> Holding:
    return Holding(
        noun=noun,
        name=item.name,
        zone=item.zone,
        accelerator_type=item.accelerator_type,
        state=item.state,
        provisioning=item.provisioning,
        created_s=item.created_s,
        job_id=item.labels.get(JOB_LABEL),
        nodes=tuple(nodes),
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


def judge(
    holding: Holding,
    books: JobRecords,
    asker: SweepScope,
    overdue: Callable[[Holding], str | None],
) -> ClassifiedHolding:
    """Decide whose a holding is, and whether it should be gone by its labels."""
    found = classify(holding, books, asker)
    if found.verdict in (Ownership.ORPHAN, Ownership.LEAVING):
        return found
    why = overdue(holding)
    return replace(found, verdict=Ownership.OVERDUE, why=why) if why else found


def overdue_text(api: TpuApi, holding: Holding, *, now_s: float) -> str | None:
    """Why one of the nodes should be gone by its labels; None while all of them may stay."""
    if holding.state in LEAVING_STATES:
        return None
    found = (
        slice_lifetime.overdue_reason(
            node.labels,
            node.created_s,
            slice_lifetime.activity_reports(api, node),
            node.worker_count,
            now_s,
        )
        for node in holding.nodes
        if slice_lifetime.has_lifetime(node.labels) and node.state != NodeState.DELETING
    )
    return next(filter(None, found), None)


def unseen_holdings(books: JobRecords, zones: Iterable[str]) -> Iterator[ClassifiedHolding]:
    """Holdings that should exist by the records, in zones that did not answer."""
    away = frozenset(zones)
    for job in books.records.values():
        kind = job.spec.resources.provisioning
        names = {
            (each.zone, each.queued_resource)
            for each in job.attempts
            if each.owned and each.deleted_s is None and each.zone in away
        }
        names |= {
            (other.zone, other.name)
            for each in job.attempts
            for other in each.others
            if other.deleted_s is None and other.zone in away
        }
        for zone, name in sorted((zone, name) for zone, name in names if name):
            holding = Holding(
                QR, name, zone, job.accelerator_type, UNSEEN, kind, job.submitted_s, job.job_id
            )
            yield ClassifiedHolding(holding, Ownership.UNKNOWN, f"{zone} did not answer", job.owner)


def survey_project(
    api: TpuApi, store: Callable[[], Store], asker: SweepScope, zone: str, now_s: float
) -> SweepReport:
    """Classify all holdings of a zone, or of all zones (`-`), orphans first."""
    overdue = partial(overdue_text, api, now_s=now_s)
    holdings, missed = list_holdings(api, zone)
    books = read_job_records(store, {each.job_id for each in holdings if each.job_id})
    classified = [
        ClassifiedHolding(each, Ownership.UNKNOWN, f"{each.zone} did not answer")
        if each.zone in missed
        else judge(each, books, asker, overdue)
        for each in holdings
    ]
    seen = {(each.zone, each.name) for each in holdings}
    classified += [
        each
        for each in unseen_holdings(books, missed)
        if (each.holding.zone, each.holding.name) not in seen
    ]
    order = list(Ownership)
    classified.sort(
        key=lambda each: (order.index(each.verdict), each.holding.zone, each.holding.name)
    )
    return SweepReport(classified, missed, books.error)


def delete_orphan(
    api: TpuApi,
    store: Callable[[], Store],
    orphan: ClassifiedHolding,
    asker: SweepScope,
    patience: Patience,
    now_s: float,
) -> SweepResult:
    """Delete what is orphan or overdue, and wait until it is gone; never raises TpuctlError."""
    try:
        now = reread_holding(api, orphan.holding)
        if now is None:
            return SweepResult(orphan, GONE)
        if why := change_text(orphan.holding, now):
            return SweepResult(orphan, LEFT, why)
        books = read_job_records(store, filter(None, [now.job_id]))
        judged = judge(now, books, asker, partial(overdue_text, api, now_s=now_s))
        if judged.verdict != orphan.verdict:
            return SweepResult(orphan, LEFT, judged.why)
        _delete_and_wait(api, now, patience)
    except NotFoundError:
        return SweepResult(orphan, GONE)
    except TpuctlError as error:
        return SweepResult(orphan, FAILED, str(error))
    return SweepResult(orphan, DELETED)


def reread_holding(api: TpuApi, holding: Holding) -> Holding | None:
    """The holding as the API reports it now; None when it is gone."""
    try:
        if holding.noun == NODE:
            node = api.get_node(holding.zone, holding.name)
            return _holding(NODE, node, [node])
        request = api.get_queued_resource(holding.zone, holding.name)
    except NotFoundError:
        return None
    nodes = [_node(api, holding.zone, name) for name in request.node_names]
    return request_holding(request, [node for node in nodes if node])


def change_text(before: Holding, now: Holding) -> str | None:
    """Why a holding is not the one seen before; None if it is, even with fewer nodes."""
    if now.job_id != before.job_id:
        return f"its label {JOB_LABEL} is another one"
    if now.created_s != before.created_s:
        return "it was created again"
    added = now.node_ids - before.node_ids
    return f"it has another node: id {min(added)}" if added else None


def _node(api: TpuApi, zone: str, name: str) -> Node | None:
    try:
        return api.get_node(zone, name)
    except NotFoundError:
        return None


def _delete_and_wait(api: TpuApi, holding: Holding, patience: Patience) -> None:
    noun, zone, name = holding.noun, holding.zone, holding.name
    if noun == NODE:
        operation = api.delete_node(zone, name)
    else:
        operation = api.delete_queued_resource(zone, name, force=True)
    about = CallSubject(f"delete {noun} {name!r}", noun, name, zone)
    wait.wait_for_operation(api, operation, patience, about=about)


def _of_job(holding: Holding, job: JobRecord, asker: SweepScope) -> ClassifiedHolding:
    """Classify a holding that carries the id of a job whose record was read."""
    if holding.state in LEAVING_STATES:
        return ClassifiedHolding(holding, Ownership.LEAVING, "it is being deleted", job.owner)
    unwanted = holding.name in job.unwanted
    if unwanted and (not job.is_ended or job.job_id in asker.tended):
        return ClassifiedHolding(holding, Ownership.LEAVING, "its supervisor deletes it", job.owner)
    state_text = f"job {job.job_id} is {job.state}"
    if not job.is_ended:
        return ClassifiedHolding(holding, Ownership.IN_USE, state_text, job.owner)
    is_kept = holding.name == job.kept
    why = f"{state_text}; kept by teardown: {job.spec.teardown}" if is_kept else state_text
    verdict = Ownership.KEPT if is_kept else Ownership.ORPHAN
    is_ours = asker.all_owners or job.owner == asker.owner
    return ClassifiedHolding(holding, verdict if is_ours else Ownership.OTHERS, why, job.owner)


def _keys(store: Store) -> list[str]:
    return [entry.key for entry in store.list(lease.LEASES)]


def _used_by(job: JobRecord) -> set[str | None]:
    """The names of nodes and requests that an unfinished job uses or is about to use."""
    attempt = job.attempt
    if attempt is None:
        return {job.node}
    others = {other.name for other in attempt.others if other.deleted_s is None}
    return {job.node, *attempt.nodes, attempt.queued_resource, *others}
