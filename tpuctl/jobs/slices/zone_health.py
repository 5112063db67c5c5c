"""Which zones had no slices lately, as all jobs of a bucket remember it, and which have quota.

    tpuctl/stockouts/<zone>/<accelerator type>[.spot]

A stock-out counts half after half an hour. What is written here is advice: an object that is lost,
late or damaged costs a job a try in the wrong zone and nothing else.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from tpuctl.api.compute import AddressQuota
from tpuctl.api.tpu.network_errors import wanted_addresses
from tpuctl.errors import NotFoundError, PreconditionError, TpuctlError
from tpuctl.jobs.interfaces import Backends
from tpuctl.jobs.policy import zones
from tpuctl.jobs.policy.actions import RecordStockout
from tpuctl.jobs.policy.observation import ZoneHealth
from tpuctl.jobs.record import decoding
from tpuctl.jobs.record.decoding import MalformedError
from tpuctl.jobs.slices import context_limits
from tpuctl.models.job import AttemptState, JobRecord
from tpuctl.models.node import Provisioning
from tpuctl.models.quota_holders import region_of
from tpuctl.store import Store

STOCKOUTS = "tpuctl/stockouts/"
SCHEMA = 1
HALF_LIFE_S = 1800.0
FRESH_S = 60.0
"""Seconds after which a job without a request reads the health of its zones again."""
FRESH_WAITING_S = 300.0
"""The same while a request waits that may be given up for another zone."""
NO_STOCKOUT = ZoneHealth()
WITHOUT_SLICE = (AttemptState.WAITING, AttemptState.ENDED)
SAVED_FIELDS = ("out_s", "since_s", "tries", "stockout_score")


def is_due(record: JobRecord, read_s: float | None, now_s: float) -> bool:
    """Whether the job's next step needs to know more than was read at `read_s`."""
    attempt = record.attempt
    if record.is_ended or (attempt and attempt.state not in WITHOUT_SLICE):
        return False
    if attempt is None or attempt.state == AttemptState.ENDED:
        changed_s = max(attempt.ended_s or 0.0, attempt.deleted_s or 0.0) if attempt else 0.0
        is_old = read_s is None or not 0.0 <= now_s - read_s < FRESH_S
        return is_old or (read_s or 0.0) < changed_s <= now_s
    several = len(zones.places_of(record)) > 1
    return several and (read_s is None or now_s - read_s >= FRESH_WAITING_S)


def read(backends: Backends, record: JobRecord, now_s: float) -> zones.Health:
    """Stock-outs and quota of every place that the job may ask, by zone and type."""
    found = {place.key: NO_STOCKOUT for place in zones.places_of(record)}
    for key in found:
        with suppress(TpuctlError):
            found[key], _ = _load_zone(backends.store, _key(record, *key), now_s)
    for kind in dict.fromkeys(kind for _, kind in found) if backends.quota else ():
        near = [zone for zone, other in found if other == kind]
        for zone, (is_enough, text) in _quota(backends, record, kind, near).items():
            found[zone, kind] = replace(found[zone, kind], has_quota=is_enough, quota=text)
    for key, (is_enough, text) in _addresses(backends, record, found).items():
        found[key] = replace(found[key], has_addresses=is_enough, addresses=text)
    with suppress(TpuctlError):  # it is asked again before a request is made
        places = zones.places_of(record)
        for key, answer in context_limits.limits_of_places(backends, record, places).items():
            found[key] = replace(found[key], over_limit=answer.excess, usd_left=answer.usd_left)
    return found


def _addresses(
    backends: Backends, record: JobRecord, keys: Iterable[zones.PlaceKey]
) -> Mapping[zones.PlaceKey, tuple[bool, str]]:
    """Whether each place's region has external addresses left for the slices, in words.

    Not for what a region never has enough addresses of: the API says so at once, in its own words.
    """
    read = None if record.spec.resources.options.internal_ips else backends.addresses
    quotas: dict[str, AddressQuota | None] = {}
    found: dict[zones.PlaceKey, tuple[bool, str]] = {}
    for zone, kind in keys if read else ():
        region = region_of(zone)
        if read and region not in quotas:
            quotas[region] = None
            with suppress(TpuctlError):
                quotas[region] = read(region)
        quota = quotas[region]
        wanted = wanted_addresses(kind, record.spec.resources.num_slices)
        if quota is not None and wanted <= quota.limit:
            text = f"{quota.left} of {quota.limit} external addresses left, {wanted} wanted"
            found[zone, kind] = wanted <= quota.left, text
    return found


def _quota(
    backends: Backends, record: JobRecord, kind: str, places: Sequence[str]
) -> Mapping[str, tuple[bool, str]]:
    """Whether each zone has quota left for the job's slices of a type, and how much, in words."""
    if backends.quota is None:
        return {}
    # What is odd about an answer is advice that could not be had, as one that never came.
    tier = record.spec.resources.provisioning
    slices = record.spec.resources.num_slices
    with suppress(TpuctlError, ValueError, TypeError):
        left = backends.quota(tuple(places), kind, tier)
        known = {zone: left[zone] for zone in places if zone in left}
        return {
            zone: (each.is_enough_for(slices), each.description(slices))
            for zone, each in known.items()
        }
    return {}


def record_stockout(store: Store, record: JobRecord, seen: RecordStockout, now_s: float) -> None:
    """Write what an attempt found for all jobs; an error of the bucket is ignored."""
    key = _key(record, seen.zone, seen.accelerator_type)
    with suppress(TpuctlError):
        if seen.out_s is None:
            store.delete(key)
            return
        before, generation = _load_zone(store, key, now_s)
        if before.out_s is not None and before.out_s >= seen.out_s:
            return
        known = before if before.stockout_score >= zones.FORGOTTEN_BELOW else NO_STOCKOUT
        document = {
            "schema": SCHEMA,
            "since_s": known.since_s or seen.out_s,
            "out_s": seen.out_s,
            "tries": known.tries + 1,
            "stockout_score": known.stockout_score + 1.0,
        }
        data = json.dumps(document).encode()
        store.put_if_generation(key, data, generation)


def _load_zone(store: Store, key: str, now_s: float) -> tuple[ZoneHealth, int]:
    """The stock-outs of a zone, and the generation of their object, 0 where there is none.

    Raises TransientError and its kin.
    """
    entry = store.head(key)
    if entry is None:
        return NO_STOCKOUT, 0
    try:
        document = decoding.parse_document(store.get_range(key, generation=entry.generation))
        if decoding.is_newer(document, SCHEMA):
            return NO_STOCKOUT, entry.generation
        saved = {name: document[name] for name in SAVED_FIELDS}
        found = decoding.decode_dataclass(ZoneHealth, saved)
    except (NotFoundError, PreconditionError, MalformedError, KeyError):
        return NO_STOCKOUT, entry.generation
    out_s = found.out_s or 0.0
    decay = 0.5 ** (max(0.0, now_s - out_s) / HALF_LIFE_S)
    return replace(found, stockout_score=found.stockout_score * decay), entry.generation


def _key(record: JobRecord, zone: str, accelerator_type: str) -> str:
    tier = record.spec.resources.provisioning
    suffix = "" if tier == Provisioning.ON_DEMAND else f".{tier}"
    return f"{STOCKOUTS}{zone}/{accelerator_type}{suffix}"
