"""What a job's slices would add to the cost of its context, and whether that is too much."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tpuctl.jobs.interfaces import Backends, LimitAnswer, WantedSlices
from tpuctl.jobs.policy import budget, zones
from tpuctl.models.job import Attempt, JobRecord
from tpuctl.models.limits.slice_lifetime import duration_of
from tpuctl.models.search import Place

RECHECK_S = 15.0
"""Seconds until a request that exceeded a limit is thought of again."""


class PlaceLimit(NamedTuple):
    """Whether slices in a place exceed a limit of the context."""

    over_limit: str
    usd_left: float | None


def limits_of_places(
    backends: Backends, record: JobRecord, places: Sequence[Place]
) -> Mapping[zones.PlaceKey, PlaceLimit]:
    """Whether the job's slices exceed a limit of the context, for each place; none without one.

    Raises TransientError and its kin.
    """
    if backends.check_limit is None or record.over_budget or not places:
        return {}
    answers = backends.check_limit([_wanted(record, place) for place in places])
    known = zip(places, answers, strict=True)
    return {place.key: PlaceLimit(each.excess, each.usd_left) for place, each in known}


def excess_of_request(backends: Backends, record: JobRecord, attempt: Attempt) -> str:
    """Which limit of the context a request exceeds that is about to be made; empty: none.

    Raises TransientError and its kin.
    """
    key = zones.key_of(record, attempt)
    place = next((each for each in zones.places_of(record) if each.key == key), None)
    if place is None:
        return ""
    name = attempt.queued_resource or attempt.node
    found = _answer(backends, record, place, frozenset({name, *attempt.nodes}))
    return "" if found is None else found.excess


def _answer(
    backends: Backends, record: JobRecord, place: Place, own_names: frozenset[str]
) -> LimitAnswer | None:
    if backends.check_limit is None or record.over_budget:
        return None
    wanted = _wanted(record, place)._replace(own_names=own_names)
    return backends.check_limit([wanted])[0]


def _wanted(record: JobRecord, place: Place) -> WantedSlices:
    lasts_s = duration_of(record.spec.resources.options.labels)
    most_usd = budget.remaining_usd(record, record.submitted_s)
    return WantedSlices(place.usd_per_hour, lasts_s, most_usd)
