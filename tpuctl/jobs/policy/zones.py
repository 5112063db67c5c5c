"""What is asked for next, and when: a slice of some type in some zone, the hopeless ones last."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tpuctl.jobs.policy.blocked_regions import BLOCK_LIMIT, blocks_text, find_blocks
from tpuctl.jobs.policy.observation import ZoneHealth
from tpuctl.jobs.record.status_text import format_moment
from tpuctl.models.job import Attempt, AttemptOutcome, JobRecord
from tpuctl.models.network_cause import NetworkCause, cause_of
from tpuctl.models.queued_resource import QueuedResourceState
from tpuctl.models.quota_holders import region_of
from tpuctl.models.search import Candidate, Place, SearchOrder

RETRY_S, MAX_RETRY_S = 30.0, 600.0
"""Seconds until a place that refused is asked again: the first time, doubled each time, at most."""
MOST_DOUBLINGS = 20
FORGOTTEN_BELOW = 0.1
"""Stock-outs that have decayed below this are forgotten."""
QUEUED_STATES = frozenset(
    {
        QueuedResourceState.CREATING,
        QueuedResourceState.ACCEPTED,
        QueuedResourceState.WAITING_FOR_RESOURCES,
    }
)
"""The states of a request that can still be withdrawn without a loss."""
UNKNOWN_HEALTH = ZoneHealth()
PlaceKey = tuple[str, str]
"""A zone and an accelerator type."""
Health = Mapping[PlaceKey, ZoneHealth]


@dataclass(frozen=True, slots=True)
class ZoneChoice:
    """The places to ask now; or none, with the reason and when and where the job goes on."""

    places: tuple[Place, ...] = ()
    why: str = ""
    next_s: float | None = None
    next_zone: str = ""


@dataclass(frozen=True, slots=True)
class Fallback:
    """The request that is given up next, when, and the place that is asked instead."""

    request: Candidate
    due_s: float
    place: Place


def places_of(record: JobRecord) -> tuple[Place, ...]:
    """Every slice that the job may ask for, in the order of its file."""
    zones = record.zones or (record.zone,)
    return record.places or tuple(Place(zone, record.accelerator_type) for zone in zones)


def place_text(record: JobRecord, place: Place | Candidate) -> str:
    """`us-west4-a`; with the type before it where the job may take several types."""
    types = {each.accelerator_type for each in places_of(record)}
    return place.zone if len(types) == 1 else f"{place.accelerator_type} in {place.zone}"


def choose_places(record: JobRecord, health: Health, now_s: float) -> ZoneChoice:
    """The places of which a slice is requested now beside those that are, or when one is again."""
    held = held_places(record)
    open_places = [place for place in _open_places(record, health) if place.key not in held]
    if not open_places:
        return ZoneChoice() if held else _against_quota(record, health, now_s)
    stockouts, blocks = _stockouts(record), find_blocks(record)
    due = {
        place.key: max(
            _due_s(stockouts.get(place.key, [])),
            _due_s([time_s for time_s, _ in blocks.get(region_of(place.zone), [])]),
        )
        for place in open_places
    }
    due_places = [place for place in open_places if due[place.key] <= now_s]
    fitting = fitting_places(record, due_places, held, _usd_left(health))
    if fitting or held:
        return ZoneChoice(fitting)
    soonest = min(open_places, key=lambda place: due[place.key])
    next_zone = place_text(record, soonest) if len(places_of(record)) > 1 else ""
    texts = [_stockout_text(record, health, now_s)] if stockouts else []
    why = "; ".join([*texts, *blocks_text(blocks)])
    return ZoneChoice((), why, due[soonest.key], next_zone)


def _against_quota(record: JobRecord, health: Health, now_s: float) -> ZoneChoice:
    """What is known of quota may be wrong: the API is asked though none seems to be left.

    What is known of addresses and of the context's limits is exact: nothing is asked for before
    others have given some back.
    """
    last_s = record.attempt.ended_s if record.attempt else None
    anyway_s = max(record.wanted_since_s or now_s, last_s or 0.0) + MAX_RETRY_S
    ranked = [place for place in ranked_places(record, health) if _may_be_asked(health, place)]
    if ranked and now_s >= anyway_s:
        return ZoneChoice(tuple(ranked[:1]))
    left = "; ".join(dict.fromkeys(_quota_texts(record, health)))
    return ZoneChoice((), left, anyway_s if ranked else None)


def _quota_texts(record: JobRecord, health: Health) -> Iterator[str]:
    """What is missing, for each place or region that lacks it."""
    for place in places_of(record):
        known = health.get(place.key, UNKNOWN_HEALTH)
        if known.has_quota is False:
            yield f"quota of {place_text(record, place)}: {known.quota}"
        yield from _address_text(health, place)
        if known.over_limit:
            yield f"{place_text(record, place)}: {known.over_limit}"


def missing_addresses(record: JobRecord, health: Health) -> list[str]:
    """Which regions lacked addresses for the job, and lack them now."""
    known = [text for place in places_of(record) for text in _address_text(health, place)]
    return list(dict.fromkeys([*blocks_text(find_blocks(record)), *known]))


def _address_text(health: Health, place: Place) -> Iterator[str]:
    if not _has_addresses(health, place):
        yield f"{region_of(place.zone)}: {health[place.key].addresses}"


def _may_be_asked(health: Health, place: Place) -> bool:
    """Whether there are addresses for the slices, and the context may cost them."""
    known = health.get(place.key, UNKNOWN_HEALTH)
    return _has_addresses(health, place) and not known.over_limit


def _usd_left(health: Health) -> float:
    """How many USD/h may be added in the context, when that was last asked."""
    known = [each.usd_left for each in health.values() if each.usd_left is not None]
    return min(known, default=math.inf)


def _has_addresses(health: Health, place: Place) -> bool:
    return health.get(place.key, UNKNOWN_HEALTH).has_addresses is not False


def fallback(record: JobRecord, queued: Sequence[Candidate], health: Health) -> Fallback | None:
    """Which of the requests that wait in a queue is given up for another place, and when.

    None: they wait for ever, because no other place can be asked or there is room for it.
    """
    held = _open_requests(record)
    spares = [place for place in _open_places(record, health) if place.key not in held]
    if fitting_places(record, spares, held):
        return None
    stockouts, found = _stockouts(record), list[Fallback]()
    for request in queued:
        rest = [key for key in held if key != request.key]
        fitting = fitting_places(record, spares, rest)
        if fitting and request.accepted_s is not None:
            round_ = len(stockouts.get(request.key, []))
            patience_s = record.spec.search.patience_s * 2 ** min(round_, MOST_DOUBLINGS)
            found.append(Fallback(request, request.accepted_s + patience_s, fitting[0]))
    return min(found, key=lambda each: each.due_s, default=None)


def ranked_places(record: JobRecord, health: Health) -> list[Place]:
    """Every place that was not refused for ever, the one to ask first at the front.

    First those that this search has tried less often, then by the order that the job file asks for,
    then those with fewer recent stock-outs. A search side by side also looks at quota, price and
    distance from the bucket; what is alike stays as it is listed.
    """
    stockouts, preferred = _stockouts(record), _preferences(record)
    blocks = find_blocks(record)
    search = record.spec.search
    is_ordered = search.at_once > 1 or search.order == SearchOrder.PRICE

    def rank(place: Place) -> tuple[float, ...]:
        known = health.get(place.key, UNKNOWN_HEALTH)
        score = known.stockout_score if known.stockout_score >= FORGOTTEN_BELOW else 0.0
        tries = len(stockouts.get(place.key, [])) + len(blocks.get(region_of(place.zone), []))
        first = (float(tries), preferred[place.key][0], score)
        quota = {True: 0.0, None: 1.0, False: 2.0}[known.has_quota]
        return (*first, quota, _usd(place), place.distance) if is_ordered else first

    return sorted(unrefused_places(record), key=rank)


def preference(record: JobRecord, key: PlaceKey) -> tuple[float, int]:
    """What decides between two slices: the smaller one is taken, whatever is known of its zone."""
    return _preferences(record).get(key, (math.inf, 0))


def _preferences(record: JobRecord) -> dict[PlaceKey, tuple[float, int]]:
    places = places_of(record)
    if record.spec.search.order == SearchOrder.PRICE:
        return {place.key: (_usd(place), index) for index, place in enumerate(places)}
    types = list(dict.fromkeys(place.accelerator_type for place in places))
    return {
        place.key: (float(types.index(place.accelerator_type)), index)
        for index, place in enumerate(places)
    }


def fitting_places(
    record: JobRecord,
    wanted: Iterable[Place],
    held: Sequence[PlaceKey],
    usd_left: float = math.inf,
) -> tuple[Place, ...]:
    """The first of the places that may be asked beside the held ones, by number and by price.

    `usd_left` is what the context may cost beside what it does already, in USD/h.
    """
    search, prices = record.spec.search, {place.key: place for place in places_of(record)}
    room = search.at_once - len(held)
    left = math.inf if search.max_usd_per_hour is None else search.max_usd_per_hour
    left -= sum(prices[key].usd_per_hour or 0.0 for key in held if key in prices)
    left = min(left, usd_left)
    found: list[Place] = []
    for place in wanted:
        usd = place.usd_per_hour or 0.0
        if len(found) < room and usd <= left:
            found.append(place)
            left -= usd
    return tuple(found)


def held_places(record: JobRecord) -> list[PlaceKey]:
    """Where the job has requests that are not known to be gone, one entry for each request."""
    held: dict[str, PlaceKey] = {}
    for attempt in record.attempts:
        if attempt.owned and attempt.queued_resource and attempt.deleted_s is None:
            held[attempt.queued_resource] = key_of(record, attempt)
        held.update({each.name: each.key for each in attempt.others if each.deleted_s is None})
    return list(held.values())


def unrefused_places(record: JobRecord) -> list[Place]:
    """The places where the API did not say that it will never grant the slice."""
    refusals = {each for attempt in record.tries for each in _refusals(record, attempt)}
    given_up = {
        region for region, tries in find_blocks(record).items() if len(tries) >= BLOCK_LIMIT
    }
    return [
        place
        for place in places_of(record)
        if region_of(place.zone) not in given_up
        and not any(_closes(key, cause, place) for key, cause in refusals)
    ]


def key_of(record: JobRecord, attempt: Attempt) -> PlaceKey:
    """The zone and the type of an attempt's slice, or of the request that leads."""
    return attempt.zone, attempt.accelerator_type or record.accelerator_type


def _refusals(
    record: JobRecord, attempt: Attempt
) -> Iterator[tuple[PlaceKey, NetworkCause | None]]:
    """What was refused for ever, and the cause in the network where that is the reason."""
    if attempt.outcome == AttemptOutcome.REFUSED:
        yield key_of(record, attempt), cause_of(attempt.refusal)
    for each in attempt.others:
        cause = cause_of(each.refusal)
        if each.refusal and not (cause is not None and cause.may_pass):
            yield each.key, cause


def _closes(key: PlaceKey, cause: NetworkCause | None, place: Place) -> bool:
    """Whether a refusal at `key` holds at the place as well; another type has fewer workers."""
    if cause is None:
        return key == place.key
    is_alike = cause != NetworkCause.ADDRESS_LIMIT or key[1] == place.accelerator_type
    return is_alike and cause.holds_in(key[0], place.zone)


def _open_requests(record: JobRecord) -> list[PlaceKey]:
    attempt = record.attempt
    if attempt is None:
        return []
    return [key_of(record, attempt), *(each.key for each in attempt.others if each.is_open)]


def _open_places(record: JobRecord, health: Health) -> list[Place]:
    """The places that may have quota left, the one to ask first at the front."""
    places = [p for p in ranked_places(record, health) if _may_be_asked(health, p)]
    return [p for p in places if health.get(p.key, UNKNOWN_HEALTH).has_quota is not False]


def _stockouts(record: JobRecord) -> dict[PlaceKey, list[float]]:
    """When each place refused the job a slice since it had one, the newest first."""
    found: dict[PlaceKey, list[float]] = {}
    for attempt in reversed(record.tries):
        if attempt.ready_s is not None:
            break
        if attempt.outcome == AttemptOutcome.STOCKOUT:
            found.setdefault(key_of(record, attempt), []).append(attempt.ended_s or 0.0)
        for other in attempt.others:
            if other.is_stockout:
                found.setdefault(other.key, []).append(other.withdrawn_s or 0.0)
    return {key: sorted(times, reverse=True) for key, times in found.items()}


def _due_s(stockouts: Sequence[float]) -> float:
    """When a place that refused at these times, the newest first, is asked again."""
    if not stockouts:
        return 0.0
    doublings = min(len(stockouts) - 1, MOST_DOUBLINGS)
    again_s: float = min(RETRY_S * 2**doublings, MAX_RETRY_S)
    return stockouts[0] + again_s


def _stockout_text(record: JobRecord, health: Health, now_s: float) -> str:
    """`us-west4-a out of v5litepod-16 since 14:02Z, 3 tries`."""
    stockouts = _stockouts(record)
    places = [place for place in places_of(record) if place.key in stockouts]
    known = [
        since
        for place in places
        if (since := health.get(place.key, UNKNOWN_HEALTH).since_s) is not None
    ]
    since_s = min([*known, *(times[-1] for times in stockouts.values())])
    tries = sum(map(len, stockouts.values()))
    count = f"{tries} {'try' if tries == 1 else 'tries'}"
    where = ", ".join(dict.fromkeys(place.zone for place in places))
    types = " or ".join(dict.fromkeys(place.accelerator_type for place in places))
    return f"{where} out of {types} since {format_moment(since_s, now_s)}, {count}"


def _usd(place: Place) -> float:
    return math.inf if place.usd_per_hour is None else place.usd_per_hour
