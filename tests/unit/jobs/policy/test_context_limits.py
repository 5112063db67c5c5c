"""What a context may cost: a job that would exceed it waits, and says what it waits for."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tpuctl.errors import TransientError
from tpuctl.jobs.interfaces import LimitAnswer
from tpuctl.jobs.policy.actions import RequestSlice
from tpuctl.jobs.policy.observation import JobObservation, ZoneHealth
from tpuctl.jobs.slices import context_limits, zone_health
from tpuctl.jobs.slices.pending_calls import PendingCalls
from tpuctl.models.job import Attempt, AttemptState, Budget, JobRecord
from tpuctl.models.limits.slice_lifetime import TTL_LABEL
from tpuctl.models.search import Place, Search
from tpuctl.models.slice_options import SliceOptions
from tpuctl.store import open_store
from unit.jobs.job_steps import asked, job, lived

KIND = "v5litepod-16"
HERE, THERE = "us-west4-a", "europe-west4-b"
OVER = ZoneHealth(over_limit="19.20 USD/h more exceed the limit of context 'lab'", usd_left=15.0)
PLACES = (Place(HERE, KIND, 19.2), Place(THERE, KIND, 12.0))


def priced(*places: Place, **spec) -> JobRecord:
    found = places or PLACES
    return replace(job(**spec), places=found, zones=tuple(each.zone for each in found))


def look(now_s: float, **known: ZoneHealth) -> JobObservation:
    health = {(zone.replace("_", "-"), KIND): each for zone, each in known.items()}
    return replace(asked(now_s), zone_health=health)


def test_a_job_waits_with_the_reason_and_goes_on_when_there_is_room():
    waits = lived(priced(PLACES[0]), look(1.0, us_west4_a=OVER), look(7000.0, us_west4_a=OVER))
    assert (waits.record.state, waits.record.attempts, waits.actions) == ("WAITING", (), ())
    assert waits.record.why == f"{HERE}: {OVER.over_limit}"
    begun = lived(waits.record, look(7060.0, us_west4_a=ZoneHealth()), asked(7061.0, a1="ABSENT"))
    assert [type(each) for each in begun.actions] == [RequestSlice]


def test_a_place_within_the_limit_is_asked_in_its_stead():
    found = lived(priced(), look(1.0, us_west4_a=OVER)).record
    assert [each.zone for each in found.attempts] == [THERE]


@pytest.mark.parametrize(("usd_left", "zones"), [(40.0, 2), (31.2, 2), (31.0, 1), (None, 2)])
def test_requests_side_by_side_stay_within_it_together(usd_left, zones):
    room = ZoneHealth(usd_left=usd_left)
    record = priced(search=Search(at_once=2))
    attempt = lived(record, look(1.0, us_west4_a=room, europe_west4_b=room)).record.attempt
    assert 1 + len(attempt.others) == zones


class Limits:
    """What the context may still cost, and what it was asked about."""

    def __init__(self, usd_left: float) -> None:
        self.usd_left, self.wanted = usd_left, []

    def __call__(self, wanted):
        self.wanted += wanted
        return [
            LimitAnswer("too much" if each.usd_per_hour > self.usd_left else "", "", self.usd_left)
            for each in wanted
        ]


def backends(check_limit, store=None):
    return SimpleNamespace(check_limit=check_limit, store=store, quota=None, addresses=None)


def test_the_health_of_a_place_has_the_limit(tmp_path):
    asking = backends(Limits(15.0), open_store(str(tmp_path)))
    found = zone_health.read(asking, priced(), 1.0)
    assert [found[zone, KIND].over_limit for zone in (HERE, THERE)] == ["too much", ""]
    assert found[HERE, KIND].usd_left == 15.0
    insisted = zone_health.read(asking, replace(priced(), over_budget=True), 1.0)
    assert insisted[HERE, KIND].over_limit == ""


def test_a_limit_that_cannot_be_asked_says_nothing_yet(tmp_path):
    def away(_wanted):
        raise TransientError("away")

    found = zone_health.read(backends(away, open_store(str(tmp_path))), priced(), 1.0)
    assert found[HERE, KIND].over_limit == ""


def test_just_before_a_request_it_is_asked_again_without_the_request_itself():
    limits = Limits(15.0)
    attempt = Attempt(
        1, HERE, "d-a1", AttemptState.WAITING, owned=True, accelerator_type=KIND,
        queued_resource="d-a1", slices=2,
    )  # fmt: skip
    labels = SliceOptions(labels={TTL_LABEL: "2h"})
    record = priced(budget=Budget(usd=30.0))
    resources = replace(record.spec.resources, options=labels)
    record = replace(record, usd_per_hour=19.2, spec=replace(record.spec, resources=resources))
    assert context_limits.excess_of_request(backends(limits), record, attempt) == "too much"
    (wanted,) = limits.wanted
    assert (wanted.usd_per_hour, wanted.lasts_s, wanted.most_usd) == (19.2, 7200, 30.0)
    assert wanted.own_names == {"d-a1", "d-a1-0", "d-a1-1"}
    limits.usd_left = 20.0
    assert context_limits.excess_of_request(backends(limits), record, attempt) == ""
    assert context_limits.excess_of_request(backends(None), record, attempt) == ""


def test_a_request_that_was_put_off_is_due_later():
    now_s = [100.0]
    calls = PendingCalls(lambda: now_s[0])
    assert calls.is_due("request")
    calls.postpone("request", 15.0)
    now_s[0] = 114.9
    assert not calls.is_due("request")
    now_s[0] = 115.0
    assert calls.is_due("request")
