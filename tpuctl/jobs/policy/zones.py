"""Which zone is tried next, and when: in the order of the job file, the hopeless ones last."""

from collections.abc import Mapping
from dataclasses import dataclass

from tpuctl.jobs.policy.observation import ZoneHealth
from tpuctl.jobs.record.status_text import format_moment
from tpuctl.models.job import Attempt, AttemptOutcome, JobRecord
from tpuctl.models.queued_resource import QueuedResourceState

PATIENCE_S = 600.0
"""How long a zone of several may let a request wait, in the first round; doubled every round."""
RETRY_S, MAX_RETRY_S = 30.0, 600.0
"""Seconds until a zone that refused is asked again: the first time, doubled each time, at most."""
FORGOTTEN_BELOW = 0.1
"""Stock-outs that have decayed below this are forgotten."""
QUEUED_STATES = frozenset(
    {
        QueuedResourceState.CREATING,
        QueuedResourceState.ACCEPTED,
        QueuedResourceState.WAITING_FOR_RESOURCES,
    }
)
"""Of a request that can still be taken back without a loss."""
UNKNOWN_HEALTH = ZoneHealth()


@dataclass(frozen=True, slots=True)
class ZoneChoice:
    """A zone to ask now; or None, with the reason and when and where the job goes on."""

    zone: str | None
    why: str = ""
    next_s: float | None = None
    next_zone: str = ""


def candidates(record: JobRecord) -> tuple[str, ...]:
    """Every zone that may be tried, in order."""
    return record.zones or (record.zone,)


def choose_zone(record: JobRecord, health: Mapping[str, ZoneHealth], now_s: float) -> ZoneChoice:
    """The zone in which the next slice is requested, or when one is asked again."""
    open_zones = _open_zones(record, health)
    if not open_zones:
        # What is known of quota may be wrong: the API is asked though none seems to be left.
        last_s = record.attempt.ended_s if record.attempt else None
        anyway_s = max(record.wanted_since_s or now_s, last_s or 0.0) + MAX_RETRY_S
        if now_s >= anyway_s:
            return ZoneChoice(_zones_by_score(record, health)[0])
        left = "; ".join(f"quota of {zone}: {health[zone].quota}" for zone in candidates(record))
        return ZoneChoice(None, left, anyway_s)
    due = {zone: _due_s(record, zone) for zone in open_zones}
    for zone in open_zones:
        if due[zone] <= now_s:
            return ZoneChoice(zone)
    soonest = min(open_zones, key=lambda zone: due[zone])
    next_zone = soonest if len(candidates(record)) > 1 else ""
    return ZoneChoice(None, _stockout_text(record, health, now_s), due[soonest], next_zone)


NO_FALLBACK = ZoneChoice(None)


def fallback_choice(
    record: JobRecord, attempt: Attempt, health: Mapping[str, ZoneHealth]
) -> ZoneChoice:
    """When a waiting request is given up, and for which zone; NO_FALLBACK: it waits for ever."""
    others = [zone for zone in _open_zones(record, health) if zone != attempt.zone]
    if not others or attempt.accepted_s is None:
        return NO_FALLBACK
    patience_s = PATIENCE_S * 2 ** len(_tries(record, attempt.zone))
    return ZoneChoice(None, "", attempt.accepted_s + patience_s, others[0])


def _zones_by_score(record: JobRecord, health: Mapping[str, ZoneHealth]) -> list[str]:
    """The zones without recent stock-outs as they were listed, then the others, coldest first."""

    def score(zone: str) -> float:
        found = health.get(zone, UNKNOWN_HEALTH).stockout_score
        return found if found >= FORGOTTEN_BELOW else 0.0

    return sorted(candidates(record), key=score)


def _open_zones(record: JobRecord, health: Mapping[str, ZoneHealth]) -> list[str]:
    """The zones that may have quota left, in the order of their scores."""
    zones = _zones_by_score(record, health)
    return [zone for zone in zones if health.get(zone, UNKNOWN_HEALTH).has_quota is not False]


def _tries(record: JobRecord, zone: str | None = None) -> list[Attempt]:
    """What was tried in vain since there was a slice, the newest first."""
    found: list[Attempt] = []
    for attempt in reversed(record.tries):
        if attempt.ready_s is not None:
            break
        if attempt.outcome == AttemptOutcome.STOCKOUT and zone in (None, attempt.zone):
            found.append(attempt)
    return found


def _due_s(record: JobRecord, zone: str) -> float:
    tries = _tries(record, zone)
    if not tries:
        return 0.0
    again_s: float = min(RETRY_S * 2 ** (len(tries) - 1), MAX_RETRY_S)
    return (tries[0].ended_s or 0.0) + again_s


def _stockout_text(record: JobRecord, health: Mapping[str, ZoneHealth], now_s: float) -> str:
    """`us-west4-a out of v5litepod-16 since 14:02Z, 3 tries`."""
    tries = _tries(record)
    zones = [zone for zone in candidates(record) if any(attempt.zone == zone for attempt in tries)]
    known = [
        since for zone in zones if (since := health.get(zone, UNKNOWN_HEALTH).since_s) is not None
    ]
    since_s = min([*known, *(attempt.ended_s or now_s for attempt in tries)])
    count = f"{len(tries)} {'try' if len(tries) == 1 else 'tries'}"
    where = ", ".join(zones)
    return (
        f"{where} out of {record.accelerator_type} since {format_moment(since_s, now_s)}, {count}"
    )
