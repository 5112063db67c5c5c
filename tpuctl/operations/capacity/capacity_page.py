"""Makes the page of what is known so far; it asks nobody."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tpuctl import catalog
from tpuctl.api.service_usage import QuotaLimit
from tpuctl.jobs.remaining_quota import QuotaLeft, quota_by_zone
from tpuctl.models.capacity.capacity_event import CapacityEvent, CapacityEventKind, Reservation
from tpuctl.models.capacity.known_events import recent_events
from tpuctl.models.node import ListedNode, Provisioning
from tpuctl.models.queued_resource import QueuedResource
from tpuctl.models.quota_holders import QuotaDemand, QuotaHolder, holders, region_of
from tpuctl.models.search import distance
from tpuctl.operations.capacity import ranking
from tpuctl.operations.capacity.zone_capacity import (
    CapacityHistory,
    CapacityPage,
    ZoneCapacity,
    ZoneOffer,
)
from tpuctl.operations.slices import cost
from tpuctl.operations.slices.capacity_notes import waiting_event


@dataclass(frozen=True, slots=True)
class CapacityQuestion:
    """What somebody wants to know: where a type can be had, and how."""

    accelerator_type: str
    zones: tuple[str, ...]
    now_s: float
    provisioning: Provisioning | None = None
    """The one way to get it; None: on demand, spot, flex-start and reserved."""
    days: float = 7.0
    """What is older is left out."""


@dataclass(frozen=True, slots=True)
class CapacityFacts:
    """What the APIs and the bucket have answered so far; None where they have not."""

    regions: frozenset[str] = frozenset()
    """Those of the bucket, as far as known."""
    limits: Sequence[QuotaLimit] | None = None
    nodes: Sequence[ListedNode] | None = None
    requests: Sequence[QueuedResource] | None = None
    silent: frozenset[str] = frozenset()
    """Zones that did not answer."""
    types: Mapping[str, frozenset[str]] | None = None
    """Zone -> the types that the API has there."""
    reservations: Mapping[str, Sequence[Reservation]] | None = None
    shared_events: Sequence[CapacityEvent] | None = None
    job_events: Sequence[CapacityEvent] | None = None
    troubles: tuple[str, ...] = ()
    """What could not be learnt, a line for each."""


def capacity_page(question: CapacityQuestion, facts: CapacityFacts) -> CapacityPage:
    """The page by what is known so far, the best chance first."""
    events = recent_events(_events(question, facts), question.now_s, question.days)
    kind = question.accelerator_type
    here = [event for event in events if event.accelerator_type == kind]
    is_asked = facts.shared_events is not None or facts.job_events is not None
    zones = (_zone(question, facts, zone, here) for zone in question.zones)
    count = len(here) if is_asked else None
    return CapacityPage(kind, ranking.rank_zones(zones), count, facts.troubles)


def _events(question: CapacityQuestion, facts: CapacityFacts) -> Iterator[CapacityEvent]:
    """All that is known: shared, of jobs, and of the requests that wait now."""
    yield from facts.shared_events or ()
    yield from facts.job_events or ()
    for request in facts.requests or ():
        if event := waiting_event(request, question.now_s):
            yield event


def _zone(
    question: CapacityQuestion,
    facts: CapacityFacts,
    zone: str,
    events: Sequence[CapacityEvent],
) -> ZoneCapacity:
    kind = catalog.accelerator_type(question.accelerator_type)
    enum = catalog.generation(kind.generation).config_enum
    reserved = (facts.reservations or {}).get(zone, ())
    types = (facts.types or {}).get(zone)
    found = ZoneCapacity(
        zone,
        kind.name,
        (),
        distance(zone, facts.regions),
        None if types is None else kind.name in types,
        tuple(each for each in reserved if each.generation == enum),
        tuple(_named_reservations(kind.name, zone, facts)),
    )
    offers = (
        _offer(question, facts, found, tier, [e for e in events if e.zone == zone])
        for tier in _tiers(question, found)
    )
    return replace(found, offers=tuple(offers))


def _tiers(question: CapacityQuestion, zone: ZoneCapacity) -> Iterator[Provisioning]:
    """The ways to get a slice in a zone that the page shows."""
    if question.provisioning is not None:
        yield question.provisioning
        return
    yield from (Provisioning.ON_DEMAND, Provisioning.SPOT)
    if _has_flex_start(zone):
        yield Provisioning.FLEX_START
    if zone.reservations:
        yield Provisioning.RESERVED


def _has_flex_start(zone: ZoneCapacity) -> bool:
    """Whether flex-start is offered: for the generation, and with a price in the region."""
    kind, tier = zone.accelerator_type, Provisioning.FLEX_START
    generation = catalog.generation(catalog.accelerator_type(kind).generation)
    return generation.flex_start and cost.usd_per_hour(kind, zone.zone, tier) is not None


def _offer(
    question: CapacityQuestion,
    facts: CapacityFacts,
    zone: ZoneCapacity,
    tier: Provisioning,
    events: Sequence[CapacityEvent],
) -> ZoneOffer:
    kind, place = zone.accelerator_type, zone.zone
    waiting = [
        each
        for each in facts.requests or ()
        if (each.zone, each.accelerator_type, each.provisioning) == (place, kind, tier)
        and waiting_event(each, question.now_s)
    ]
    own = (event for event in events if event.provisioning == tier)
    offer = ZoneOffer(
        tier,
        cost.usd_per_hour(kind, place, tier),
        history_of(own, len(waiting)),
        _quota_left(facts, kind, place, tier),
        tuple(_holders(facts, kind, place, tier)),
    )
    is_silent = place in facts.silent and zone.has_type is None
    chance = ranking.chance_of(offer, zone, question.now_s, is_silent=is_silent)
    return replace(offer, chance=chance)


def history_of(events: Iterable[CapacityEvent], waiting: int = 0) -> CapacityHistory:
    """What became of requests, from their events in the order of time."""
    found: dict[CapacityEventKind, list[CapacityEvent]] = {kind: [] for kind in CapacityEventKind}
    for event in events:
        found[event.kind].append(event)
    refused, granted = found[CapacityEventKind.REFUSED], found[CapacityEventKind.GRANTED]
    taken = found[CapacityEventKind.PREEMPTED]
    return CapacityHistory(
        len(refused),
        refused[-1] if refused else None,
        len(granted),
        granted[-1] if granted else None,
        _median_s(granted),
        len(taken),
        _median_s(taken),
        waiting,
    )


def _median_s(events: Sequence[CapacityEvent]) -> float | None:
    from statistics import median  # the first page needs none

    known = [event.after_s for event in events if event.after_s is not None]
    return median(known) if known else None


def _quota_left(facts: CapacityFacts, kind: str, zone: str, tier: str) -> QuotaLeft | None:
    """What is left of the limit; None where any of limit, nodes and requests is not known."""
    if facts.limits is None or facts.nodes is None or facts.requests is None:
        return None
    if zone in facts.silent or tier == Provisioning.RESERVED:
        return None
    return quota_by_zone(facts.limits, facts.nodes, facts.requests, [zone], kind, tier).get(zone)


def _holders(facts: CapacityFacts, kind: str, zone: str, tier: str) -> Iterator[QuotaHolder]:
    quota = catalog.generation(catalog.accelerator_type(kind).generation).quota
    place = region_of(zone) if quota is not None and quota.scope == "region" else zone
    wanted = QuotaDemand(kind, zone, tier)
    yield from holders(facts.nodes or (), facts.requests or (), wanted, location=place)


def _named_reservations(kind: str, zone: str, facts: CapacityFacts) -> Iterator[str]:
    """The reservations that requests for the type name, each once."""
    names = (
        request.reservation.rpartition("/")[2]
        for request in facts.requests or ()
        if request.reservation and (request.zone, request.accelerator_type) == (zone, kind)
    )
    yield from dict.fromkeys(name for name in names if name != "-")
