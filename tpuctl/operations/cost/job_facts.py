"""What the record of a job says about its slices: the facts for the ledger, and when it used which.

A record has the moments at which a supervisor saw things come, by the supervisor's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tpuctl.ledger.slice_facts import ABSENT, Sighting, identity_fact, sighting_fact
from tpuctl.models.job import Attempt, AttemptOutcome, JobRecord
from tpuctl.models.money.slice_life import SliceIdentity
from tpuctl.models.node import NodeState
from tpuctl.models.search import Candidate

ENDED_ON_READY = frozenset(
    {AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED, AttemptOutcome.TIMEOUT, AttemptOutcome.HUNG}
)
"""Outcomes after which the slice of an attempt is still READY."""


class JobUse(NamedTuple):
    """A time in which a job used a slice that is not its own."""

    begin_s: float
    end_s: float
    job_id: str


class KnownNodes:
    """The ids of the slices that are known by zone and name: a job's own names are used once."""

    def __init__(self, known: Iterable[SliceIdentity]) -> None:
        self._ids = {(of.zone, of.name): of.node_id for of in known if of.created_s is not None}

    def id_of(self, zone: str, name: str) -> str:
        """The id of a node; one that nobody has seen goes by its zone and name."""
        return self._ids.get((zone, name), f"{zone}/{name}")


def facts_of_job(record: JobRecord, nodes: KnownNodes) -> Iterator[dict[str, Any]]:
    """The facts that a record has of the slices of its attempts."""
    for attempt in record.attempts:
        for number, name in enumerate(attempt.nodes):
            yield from _attempt_facts(record, attempt, _node_id(attempt, number, name, nodes), name)
        for other in attempt.others:
            yield from _candidate_facts(record, attempt, other, nodes)


def uses_of_job(record: JobRecord, now_s: float) -> Iterator[tuple[str, JobUse]]:
    """When a job used slices that are not its own, by node id."""
    for attempt in record.attempts:
        if not attempt.owned and attempt.ready_s is not None:
            end_s = now_s if attempt.ended_s is None else attempt.ended_s
            for node_id in attempt.node_ids:
                yield str(node_id), JobUse(attempt.ready_s, end_s, record.job_id)


def _node_id(attempt: Attempt, number: int, name: str, nodes: KnownNodes) -> str:
    if number < len(attempt.node_ids):
        return str(attempt.node_ids[number])
    return nodes.id_of(attempt.zone, name)


def _attempt_facts(
    record: JobRecord, attempt: Attempt, node_id: str, name: str
) -> Iterator[dict[str, Any]]:
    if attempt.ready_s is None or (not attempt.owned and not attempt.node_ids):
        return
    kind = attempt.accelerator_type or record.accelerator_type
    request = attempt.queued_resource or ""
    if attempt.owned:
        yield identity_fact(_identity(record, node_id, name, attempt.zone, kind, request))
    yield sighting_fact(
        node_id, Sighting(attempt.ready_s, NodeState.READY, is_watched=attempt.owned)
    )
    if attempt.ended_s is not None:
        if attempt.outcome == AttemptOutcome.PREEMPTED:
            seen = Sighting(attempt.ended_s, NodeState.PREEMPTED, is_watched=True)
            yield sighting_fact(node_id, seen)
        elif attempt.outcome in ENDED_ON_READY:
            yield sighting_fact(node_id, Sighting(attempt.ended_s, NodeState.READY))
    if attempt.owned and attempt.deleted_s is not None:
        yield sighting_fact(node_id, Sighting(attempt.deleted_s, ABSENT, is_watched=True))


def _candidate_facts(
    record: JobRecord, attempt: Attempt, other: Candidate, nodes: KnownNodes
) -> Iterator[dict[str, Any]]:
    """The facts of a request that was ACTIVE though another one was chosen."""
    if other.active_s is None:
        return
    several = attempt.slices > 1
    names = [f"{other.name}-{n}" for n in range(attempt.slices)] if several else [other.name]
    for name in names:
        node_id = nodes.id_of(other.zone, name)
        kind = other.accelerator_type
        yield identity_fact(_identity(record, node_id, name, other.zone, kind, other.name))
        yield sighting_fact(node_id, Sighting(other.active_s, NodeState.READY, is_watched=True))
        if other.deleted_s is not None:
            yield sighting_fact(node_id, Sighting(other.deleted_s, ABSENT, is_watched=True))


def _identity(  # noqa: PLR0913 (what a slice is)
    record: JobRecord, node_id: str, name: str, zone: str, kind: str, request: str
) -> SliceIdentity:
    return SliceIdentity(
        node_id,
        name,
        zone,
        kind,
        str(record.spec.resources.provisioning),
        request,
        record.job_id,
        record.owner,
    )
