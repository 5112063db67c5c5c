"""What a look at the Cloud TPU API says about slices: the facts that the ledger lacks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tpuctl.ledger.slice_facts import (
    ABSENT,
    ENDED_STATES,
    ApiMoment,
    Sighting,
    SliceFacts,
    collect_facts,
    identity_fact,
    is_deleted,
    labels_fact,
    moment_fact,
    sighting_fact,
)
from tpuctl.models.money.slice_life import SliceIdentity
from tpuctl.models.node import Node
from tpuctl.models.operation import Operation

NODES, REQUESTS = "nodes", "queuedResources"
CREATED_SLACK_S = 2.0
"""The creation of a node is told in whole seconds; its operation may begin a little earlier."""
SEEN_AGAIN_S = 240.0
"""A slice that is as it was is noted again after this."""


@dataclass(frozen=True, slots=True)
class SliceSurvey:
    """The nodes of the zones that answered, and the operations that are still listed."""

    looked_s: float
    """When, by the clock of the cloud, in seconds since 1970."""
    nodes: Sequence[Node] = ()
    operations: Sequence[Operation] = ()
    zones: Collection[str] | None = None
    """The zones that were asked; None: all of them."""
    unreachable: Collection[str] = ()
    """Those of them that did not answer."""

    def has_seen(self, zone: str) -> bool:
        """Whether a node of the zone that exists is among the nodes."""
        return zone not in self.unreachable and (self.zones is None or zone in self.zones)


def identity_of(node: Node) -> SliceIdentity:
    """What a node is for as long as it lives."""
    return SliceIdentity(
        str(node.node_id),
        node.name,
        node.zone,
        node.accelerator_type,
        str(node.provisioning),
        node.queued_resource or "",
        created_s=node.created_s,
    )


def new_facts(survey: SliceSurvey, known: Mapping[str, SliceFacts]) -> list[dict[str, Any]]:
    """The facts of a look that are not among those that are known, by node id."""
    told = [*_node_facts(survey, known), *_operation_identities(survey.operations)]
    if survey.operations:
        told += _operation_facts(survey.operations, _Incarnations(with_facts(known, told)))
    told += _absence_facts(survey, with_facts(known, told))
    return list(lacking_facts(told, known))


def with_facts(
    known: Mapping[str, SliceFacts], facts: Collection[Mapping[str, Any]]
) -> dict[str, SliceFacts]:
    """What is known and more facts, by node id; what is known stays as it was."""
    touched = {fact["slice"] for fact in facts}
    every = {**known, **{key: _copy(known[key]) for key in touched if key in known}}
    return collect_facts(facts, every)


def lacking_facts(
    facts: Iterable[dict[str, Any]], known: Mapping[str, SliceFacts]
) -> Iterator[dict[str, Any]]:
    """The facts that say more than what is known already, each once."""
    for fact in {str(sorted(each.items())): each for each in facts}.values():
        before = known.get(fact["slice"])
        if before is None:
            yield fact
            continue
        (after,) = collect_facts([fact], {fact["slice"]: _copy(before)}).values()
        if after != before:
            yield fact


def _copy(facts: SliceFacts) -> SliceFacts:
    return replace(
        facts,
        moments=set(facts.moments),
        sightings=set(facts.sightings),
        labels=set(facts.labels),
    )


def _node_facts(survey: SliceSurvey, known: Mapping[str, SliceFacts]) -> Iterator[dict[str, Any]]:
    for node in survey.nodes:
        identity = identity_of(node)
        before = known.get(identity.node_id)
        yield identity_fact(identity)
        seen = Sighting(survey.looked_s, str(node.state))
        last = max(before.sightings, default=None) if before else None
        if last is None or last.state != seen.state or seen.at_s - last.at_s >= SEEN_AGAIN_S:
            yield sighting_fact(identity.node_id, seen)
        labels = tuple(sorted(node.labels.items()))
        if before is None or not before.labels or max(before.labels)[1] != labels:
            yield labels_fact(identity.node_id, node.labels, survey.looked_s)


def _operation_identities(operations: Iterable[Operation]) -> Iterator[dict[str, Any]]:
    """What operations have changed, though it may be gone."""
    for operation in operations:
        node = operation.node
        if node is not None and node.node_id:
            yield identity_fact(identity_of(node))
            if operation.verb.lower() == "create" and node.labels:
                yield labels_fact(str(node.node_id), node.labels, node.created_s)


class _Incarnations:
    """Which slice a name meant at a moment: names are used again."""

    def __init__(self, known: Mapping[str, SliceFacts]) -> None:
        self._by_node: dict[tuple[str, str], list[SliceIdentity]] = {}
        self._by_request: dict[tuple[str, str], set[str]] = {}
        for facts in known.values():
            of = facts.identity
            if of.created_s is not None:
                self._by_node.setdefault((of.zone, of.name), []).append(of)
                if of.request:
                    self._by_request.setdefault((of.zone, of.request), set()).add(of.name)

    def node_ids(self, told: _ToldMoment) -> Iterator[str]:
        """The ids of the nodes that an operation was about."""
        zone, name = told.zone, told.name
        names = self._by_request.get((zone, name), ()) if told.is_request else (name,)
        for each in sorted(names):
            found = [of for of in self._by_node.get((zone, each), ()) if told.may_mean(of)]
            if found:
                yield max(found, key=lambda of: of.created_s or 0.0).node_id


class _ToldMoment(NamedTuple):
    """What an operation says about a node, or the nodes of a request."""

    zone: str
    name: str
    is_request: bool
    moment: ApiMoment
    at_s: float
    asked_s: float

    def may_mean(self, of: SliceIdentity) -> bool:
        """Whether it was a node of that name when the operation was asked for."""
        if self.is_request and of.request != self.name:
            return False
        created_s = of.created_s or 0.0
        if self.moment == ApiMoment.FAIL:
            return self.asked_s - CREATED_SLACK_S <= created_s <= self.at_s
        return created_s <= self.asked_s + CREATED_SLACK_S


def _operation_facts(
    operations: Iterable[Operation], incarnations: _Incarnations
) -> Iterator[dict[str, Any]]:
    for operation in operations:
        told = _told_moment(operation)
        node = operation.node
        if told is not None:
            is_named = node is not None and node.node_id
            ids = [str(node.node_id)] if node and is_named else incarnations.node_ids(told)
            yield from (moment_fact(node_id, told.moment, told.at_s) for node_id in ids)


_TOLD_BY: Mapping[tuple[str, str], tuple[ApiMoment, str]] = {
    (NODES, "create"): (ApiMoment.READY, "ended_s"),
    (NODES, "start"): (ApiMoment.READY, "ended_s"),
    (NODES, "stop"): (ApiMoment.STOP, "created_s"),
    (NODES, "delete"): (ApiMoment.DELETE, "created_s"),
    (REQUESTS, "delete"): (ApiMoment.DELETE, "created_s"),
}
"""What is changed, and how -> what that says about a slice, and which time of the operation."""


def _told_moment(operation: Operation) -> _ToldMoment | None:
    parts = operation.target.split("/")
    if operation.created_s is None or len(parts) != 6:  # noqa: PLR2004
        return None
    _, _, _, zone, collection, name = parts
    change = (collection, operation.verb.lower())
    moment, time_name = _TOLD_BY.get(change, (None, ""))
    if operation.error is not None:
        is_creation = change == (NODES, "create")
        moment, time_name = (ApiMoment.FAIL if is_creation else None), "ended_s"
    at_s = getattr(operation, time_name) if moment else None
    if moment is None or at_s is None:
        return None
    return _ToldMoment(zone, name, collection == REQUESTS, moment, at_s, operation.created_s)


def _absence_facts(
    survey: SliceSurvey, known: Mapping[str, SliceFacts]
) -> Iterator[dict[str, Any]]:
    """The slices that were there and are not listed any more."""
    present = {str(node.node_id) for node in survey.nodes}
    for node_id, facts in known.items():
        if node_id in present or not survey.has_seen(facts.identity.zone) or _is_over(facts):
            continue
        if (facts.identity.created_s or 0.0) <= survey.looked_s:
            yield sighting_fact(node_id, Sighting(survey.looked_s, ABSENT))


def _is_over(facts: SliceFacts) -> bool:
    last = max(facts.sightings, default=None)
    return is_deleted(facts) or (last is not None and last.state in ENDED_STATES)
