"""What a job's slices would add to the cost of its context, and whether that is too much."""

from collections.abc import Mapping, Sequence

from tpuctl.jobs.interfaces import Backends, LimitAnswer, WantedSlices
from tpuctl.jobs.policy import budget, zones
from tpuctl.models.job import Attempt, JobRecord
from tpuctl.models.limits.slice_lifetime import duration_of
from tpuctl.models.search import Place

RECHECK_S = 15.0
"""Seconds until a request that exceeded a limit is thought of again."""


def limits_of_places(
    backends: Backends, record: JobRecord, places: Sequence[Place]
) -> Mapping[zones.PlaceKey, LimitAnswer]:
    """Whether the job's slices exceed a limit of the context, for each place; none without one.

    Raises TransientError and its kin.
    """
    if backends.check_limit is None or record.over_budget or not places:
        return {}
    answers = backends.check_limit([_wanted(record, place) for place in places])
    return {place.key: answer for place, answer in zip(places, answers, strict=True)}


def excess_of_request(backends: Backends, record: JobRecord, attempt: Attempt) -> str:
    """Which limit of the context a request exceeds that is about to be made; empty: none.

    Raises TransientError and its kin.
    """
    if backends.check_limit is None or record.over_budget:
        return ""
    key = zones.key_of(record, attempt)
    place = next((each for each in zones.places_of(record) if each.key == key), None)
    if place is None:
        return ""
    name = attempt.queued_resource or attempt.node
    wanted = _wanted(record, place)._replace(own_names=frozenset({name, *attempt.nodes}))
    return backends.check_limit([wanted])[0].excess


def _wanted(record: JobRecord, place: Place) -> WantedSlices:
    lasts_s = duration_of(record.spec.resources.options.labels)
    most_usd = budget.remaining_usd(record, record.submitted_s)
    return WantedSlices(place.usd_per_hour, lasts_s, most_usd)
