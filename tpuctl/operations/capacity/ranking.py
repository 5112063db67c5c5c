"""Which zone is asked first: a rule that a person can follow.

1. A reservation with room, then what was granted lately, then what nothing speaks against, then
   what was refused lately, then what lacks quota, then silent zones, then closed ones.
2. Among those: where quota is known to be left before where it is not known.
3. The lower price; what has no list price comes last.
4. The zone nearer to the bucket, and then the zone's name.
"""

import math
from collections.abc import Iterable
from dataclasses import replace

from tpuctl.models.capacity.capacity_event import CapacityEvent, RefusalCause
from tpuctl.models.node import Provisioning
from tpuctl.operations.capacity.zone_capacity import (
    CapacityHistory,
    Chance,
    ZoneCapacity,
    ZoneOffer,
)

RECENT_REFUSAL_S = 6 * 3600.0
"""For so long a refusal counts against a zone that has granted nothing since."""
BEST_FIRST = tuple(Chance)
WITH_DURATION = frozenset({Provisioning.FLEX_START})
"""What needs a duration besides: it comes first only where it was asked for by name."""


def rank_zones(zones: Iterable[ZoneCapacity]) -> tuple[ZoneCapacity, ...]:
    """The zones, each with its offers in order; the zone with the best one first."""
    ordered = [replace(zone, offers=rank_offers(zone)) for zone in zones]
    return tuple(sorted(ordered, key=lambda zone: (_rank(zone, zone.best), zone.zone)))


def rank_offers(zone: ZoneCapacity) -> tuple[ZoneOffer, ...]:
    """The offers of a zone, the best chance first."""
    return tuple(sorted(zone.offers, key=lambda offer: _rank(zone, offer)))


def chance_of(offer: ZoneOffer, zone: ZoneCapacity, now_s: float, *, is_silent: bool) -> Chance:
    """How likely the offer's request is granted, by what is known of the zone; the first that fits.

    `is_silent`: the zone was asked for its types and did not answer.
    """
    refusal = _standing_refusal(offer.history)
    is_forbidden = refusal is not None and refusal.cause == RefusalCause.PERMISSION
    if zone.has_type is False or is_forbidden:
        return Chance.CLOSED
    if is_silent:
        return Chance.SILENT
    if offer.provisioning == Provisioning.RESERVED:
        return Chance.RESERVED if zone.roomy_reservation else Chance.NO_QUOTA
    if offer.quota is not None and not offer.quota.is_enough_for(1):
        return Chance.NO_QUOTA
    if offer.history.waiting or _speaks_against(refusal, offer, now_s):
        return Chance.REFUSED
    return Chance.OPEN if offer.history.last_grant is None else Chance.GRANTED


def _standing_refusal(history: CapacityHistory) -> CapacityEvent | None:
    """The last refusal; None where there is none, or something was granted since."""
    refusal, grant = history.last_refusal, history.last_grant
    is_over = refusal is not None and grant is not None and grant.time_s >= refusal.time_s
    return None if is_over else refusal


def _speaks_against(refusal: CapacityEvent | None, offer: ZoneOffer, now_s: float) -> bool:
    """Whether a refusal still counts; one for quota does not where quota is left now."""
    if refusal is None or now_s - refusal.time_s > RECENT_REFUSAL_S:
        return False
    return refusal.cause != RefusalCause.QUOTA or offer.quota is None


def _rank(zone: ZoneCapacity, offer: ZoneOffer) -> tuple[float, ...]:
    is_known = offer.quota is not None or offer.provisioning == Provisioning.RESERVED
    usd = math.inf if offer.usd_per_hour is None else offer.usd_per_hour
    return (
        float(offer.provisioning in WITH_DURATION and len(zone.offers) > 1),
        float(BEST_FIRST.index(offer.chance)),
        float(not is_known),
        usd,
        float(zone.distance),
    )
