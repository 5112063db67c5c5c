"""Which zone is asked, for how long, and what people are told meanwhile."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.jobs.policy import zones
from tpuctl.jobs.policy.actions import DeleteSlice, RecordStockout
from tpuctl.jobs.policy.observation import ABSENT, JobObservation, SliceRefusal, ZoneHealth
from tpuctl.jobs.policy.reconcile import reconcile
from tpuctl.jobs.policy.search import open_requests
from tpuctl.jobs.record import status_text
from tpuctl.jobs.slices import zone_health
from tpuctl.models.job import JobRecord, Phase, Timeouts
from tpuctl.models.search import Place, Search, SearchOrder
from unit.jobs.job_steps import A1, A2, asked, job, lived, seen

KIND = "v5litepod-16"
HERE, THERE, FAR = "us-west4-a", "europe-west4-b", "us-east1-c"
WAITS = "WAITING_FOR_RESOURCES"
EMPTY = ZoneHealth(has_quota=False, quota="0 of 16 chips left")
OUT = ZoneHealth(out_s=0.0, since_s=0.0, tries=1, stockout_score=0.9)


def roaming(*zones: str, **spec) -> JobRecord:
    return replace(job(**spec), zones=zones, zone=zones[0])


def out_of_it(now_s: float, name: str, request: str = "FAILED") -> JobObservation:
    refusal = SliceRefusal("no more capacity", "no_capacity", name, is_shortage=True)
    return replace(asked(now_s), requests={name: request}, refusals=(refusal,))


def of_type(known: dict[str, ZoneHealth]) -> dict[tuple[str, str], ZoneHealth]:
    return {(zone, KIND): health for zone, health in known.items()}


def attempt_name(number: int) -> str:
    return f"digits-a1b2c3-a{number}"


def refused_everywhere(record: JobRecord, tries: int, now_s: float) -> tuple[JobRecord, float]:
    """Every try meets a stock-out at once, and its request is gone a second later."""
    while len(record.attempts) < tries or record.attempt.state != "ENDED":
        step = reconcile(record, asked(now_s))
        if step.record.attempt and step.record.attempt.state == "WAITING":
            name = step.record.attempt.queued_resource
            step = lived(
                step.record, out_of_it(now_s + 0.1, name), asked(now_s + 0.2),
                JobObservation(now_s + 0.3, requests={name: ABSENT}, looked_s=now_s + 0.3),
            )  # fmt: skip
        record, now_s = step.record, now_s + 1.0
    return record, now_s


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, HERE),
        ({HERE: OUT}, THERE),
        ({HERE: OUT, THERE: OUT, FAR: replace(OUT, stockout_score=0.5)}, FAR),
        ({HERE: replace(OUT, stockout_score=0.05)}, HERE),
        ({HERE: EMPTY}, THERE),
        ({HERE: EMPTY, THERE: OUT, FAR: OUT}, THERE),
    ],
)
def test_zones_are_tried_in_order_the_hopeless_ones_last(known, expected):
    step = lived(roaming(HERE, THERE, FAR), replace(asked(1.0), zone_health=of_type(known)))
    assert (step.record.zone, step.record.attempt.zone) == (expected, expected)


def test_without_quota_anywhere_it_waits_and_says_what_is_left():
    record = lived(job(), replace(asked(1.0), zone_health=of_type({HERE: EMPTY}))).record
    assert (record.state, record.attempts) == ("WAITING", ())
    assert record.why == "quota of us-west4-a: 0 of 16 chips left"
    freed = replace(EMPTY, has_quota=True, quota="16 of 16 chips left")
    assert (
        lived(record, replace(asked(60.0), zone_health=of_type({HERE: freed}))).record.attempt.zone
        == HERE
    )


def test_what_is_known_of_quota_may_be_wrong_so_every_ten_minutes_the_api_is_asked_all_the_same():
    def empty(now_s: float, **requests: str) -> JobObservation:
        return replace(asked(now_s, **requests), zone_health=of_type({HERE: EMPTY}))

    waits = lived(job(), empty(1.0), empty(600.0)).record
    assert (waits.attempts, waits.next_s) == ((), 601.0)
    tried = lived(waits, empty(601.0)).record
    assert tried.attempt.zone == HERE
    no = SliceRefusal("quota", "no_capacity", is_shortage=True)
    gone = (empty(603.0, a1=ABSENT), empty(604.0))
    refused = lived(tried, replace(empty(602.0), refusals=(no,)), *gone).record
    assert (refused.attempt.outcome, refused.next_s) == ("stockout", 1202.0)


def test_a_slice_is_requested_when_somebody_has_looked_and_not_before():
    assert lived(job(), JobObservation(1.0)).record.attempts == ()
    assert zone_health.is_due(job(), None, 1.0)
    assert not zone_health.is_due(job(), 1.0, 60.0)
    assert zone_health.is_due(job(), 1.0, 61.0)


def test_a_single_zone_is_waited_in_for_ever():
    record = lived(job(), asked(1.0), asked(2.0, a1=WAITS), asked(1e6, a1=WAITS)).record
    assert (record.attempt.state, record.next_s) == ("WAITING", None)
    assert record.why == f"{HERE}: queued resource {A1} is {WAITS} since 01 Jan 00:00Z"


def test_one_of_several_zones_gets_ten_minutes_and_the_next_round_twenty():
    waits = lived(roaming(HERE, THERE), asked(1.0), asked(2.0, a1=WAITS)).record
    assert status_text.current_status(waits, 482.0).endswith(f"since 00:00Z; then {THERE} in 2 min")
    step = lived(waits, asked(601.0, a1=WAITS))
    assert step.record.attempt.outcome is None
    step = lived(step.record, asked(602.0, a1=WAITS))
    assert step.record.attempt.outcome == "stockout"
    assert DeleteSlice(HERE, A1) in step.actions
    assert RecordStockout(A1, HERE, KIND, 602.0) in step.actions
    second = lived(step.record, asked(603.0, a1=ABSENT), asked(604.0), asked(605.0, a2=WAITS))
    assert second.record.attempt.zone == THERE
    third = lived(
        second.record, asked(1205.0, a2=WAITS), asked(1206.0, a2=ABSENT), asked(1207.0),
        asked(1208.0, a3=WAITS),
    )  # fmt: skip
    assert third.record.attempt.zone == HERE
    assert third.record.next_s == 1208.0 + 1200.0


def test_nobody_leaves_a_queue_for_a_zone_without_quota():
    known = of_type({THERE: EMPTY})
    waits = replace(asked(2.0, a1=WAITS), zone_health=known)
    record = lived(roaming(HERE, THERE), asked(1.0), waits, replace(waits, now_s=9e5)).record
    assert (record.attempt.state, record.attempt.zone) == ("WAITING", HERE)


def test_a_request_that_is_being_granted_is_not_given_up():
    record = lived(roaming(HERE, THERE), asked(1.0), asked(2.0, a1="PROVISIONING")).record
    late = lived(record, asked(5000.0, a1="PROVISIONING")).record
    assert (late.attempt.state, late.next_s) == ("WAITING", None)


def test_a_zone_that_refuses_is_asked_again_ever_more_rarely_and_the_reader_counts_down():
    record, now_s = refused_everywhere(job(), 3, 1.0)
    last_s = record.attempt.ended_s
    record = lived(record, asked(now_s)).record
    assert record.next_s == last_s + 120.0
    assert record.why == "us-west4-a out of v5litepod-16 since 00:00Z, 3 tries"
    assert status_text.current_status(record, record.next_s - 40.0) == f"{record.why}, next in 40 s"
    again = lived(record, asked(now_s + 50.0)).record
    assert again == record, "the record is not written for a countdown"
    assert lived(record, asked(record.next_s)).record.attempt.number == 4


def test_all_zones_are_tried_before_one_is_tried_again():
    record, _ = refused_everywhere(roaming(HERE, THERE, FAR), 3, 1.0)
    assert [each.zone for each in record.attempts] == [HERE, THERE, FAR]
    record = lived(record, asked(20.0)).record
    assert status_text.current_status(record, 21.0) == (
        "us-west4-a, europe-west4-b, us-east1-c out of v5litepod-16 since 00:00Z, 3 tries; "
        "then us-west4-a in 10 s"
    )


def test_the_time_in_the_queue_is_counted_over_all_tries():
    record, now_s = refused_everywhere(job(timeouts=Timeouts(queue_s=100.0)), 2, 1.0)
    record = lived(record, asked(now_s), asked(102.0)).record
    assert (record.state, record.why) == ("FAILED", "no v5litepod-16 within 100 s")


def test_a_stockout_is_no_recovery_and_a_preempted_slice_is():
    record, _ = refused_everywhere(roaming(HERE, THERE), 1, 1.0)
    assert lived(record, asked(3.0)).record.state == "WAITING"
    preempted = lived(
        roaming(HERE, THERE), asked(1.0), seen(2.0), seen(3.0, {"phase": Phase.PREPARED}),
        seen(4.0, node="PREEMPTED"),
    ).record  # fmt: skip
    assert preempted.state == "RECOVERING"
    again = lived(preempted, asked(5.0, a1=ABSENT), asked(6.0)).record
    assert (again.state, again.attempt.queued_resource) == ("RECOVERING", A2)


def test_other_jobs_hear_that_a_zone_has_slices_again():
    step = lived(job(), asked(1.0), replace(seen(2.0), zone_health=of_type({HERE: OUT})))
    assert RecordStockout(A1, HERE, KIND, None) in step.actions


def test_a_job_that_cannot_start_here_requests_nothing_and_says_why():
    lacking = replace(asked(1.0), blocked_by="HF_TOKEN is not known here")
    record = lived(job(), lacking).record
    assert (record.state, record.why, record.attempts) == ("WAITING", lacking.blocked_by, ())
    assert lived(record, asked(2.0)).record.attempt.number == 1


# ------------------------------------------------------------------ several requests at once

PLACES = (
    Place(HERE, KIND, 19.2, 1), Place(THERE, KIND, 24.96, 0), Place(FAR, KIND, 19.2, 0),
    Place(HERE, "v6e-16", 12.0, 1), Place(FAR, "v6e-16", None, 0),
)  # fmt: skip


def searching(*places: Place, **search) -> JobRecord:
    places = places or PLACES
    record = job(search=Search(**{"at_once": 2, **search}))
    zones = tuple(dict.fromkeys(place.zone for place in places))
    return replace(record, places=places, zones=zones)


def asks(record: JobRecord) -> list[tuple[str, str]]:
    return [request.key for request in open_requests(record.attempt)]


healths = st.builds(
    ZoneHealth,
    stockout_score=st.sampled_from((0.0, 0.05, 0.5, 2.0)),
    has_quota=st.sampled_from((True, False, None)),
)


@given(
    known=st.dictionaries(st.sampled_from([place.key for place in PLACES]), healths),
    order=st.sampled_from(list(SearchOrder)),
)
def test_places_are_ranked_by_preference_stockouts_quota_price_and_distance(known, order):
    def rank(place: Place) -> tuple[float, ...]:
        health = known.get(place.key, ZoneHealth())
        score = health.stockout_score if health.stockout_score >= 0.1 else 0.0
        usd = math.inf if place.usd_per_hour is None else place.usd_per_hour
        first = [KIND, "v6e-16"].index(place.accelerator_type) if order == "listed" else usd
        quota = [True, None, False].index(health.has_quota)
        return first, score, quota, usd, place.distance, PLACES.index(place)

    ranked = zones.ranked_places(searching(order=order), known)
    assert sorted(ranked, key=PLACES.index) == list(PLACES)
    assert ranked == sorted(PLACES, key=rank)


@given(
    at_once=st.integers(1, 5),
    most=st.none() | st.sampled_from((24.96, 31.2, 50.0)),
    held=st.lists(st.sampled_from([place.key for place in PLACES[:4]]), unique=True),
)
def test_what_is_asked_beside_the_held_never_passes_the_bounds(at_once, most, held):
    record = searching(*PLACES[:4], at_once=at_once, max_usd_per_hour=most)
    prices = {place.key: place.usd_per_hour for place in PLACES}
    wanted = [place for place in PLACES[:4] if place.key not in held]
    found = [place.key for place in zones.fitting_places(record, wanted, held)]
    assert not found or len(held) + len(found) <= at_once
    assert not found or most is None or sum(prices[key] for key in (*held, *found)) <= most
    assert found or held, "one alone always fits"


def test_requests_side_by_side_are_on_record_before_they_are_made():
    step = lived(searching(), asked(1.0))
    assert step.actions == ()
    assert asks(step.record) == [(FAR, KIND), (HERE, KIND)]
    step = lived(step.record, asked(2.0, a1=ABSENT, a1c2=ABSENT))
    made = [action.attempt.queued_resource for action in step.actions]
    assert made == [A1, f"{A1}c2"]
    assert len({action.attempt.request_id for action in step.actions}) == 2
    waits = lived(step.record, asked(3.0, a1=WAITS, a1c2="ACCEPTED")).record
    assert waits.why == (
        f"asks 2 zones: {KIND} in {FAR} WAITING_FOR_RESOURCES, {KIND} in {HERE} ACCEPTED"
    )


def test_the_first_that_is_active_is_chosen_and_the_others_go():
    waits = lived(searching(), asked(1.0), asked(2.0, a1=WAITS, a1c2=WAITS)).record
    step = lived(waits, asked(3.0, a1=WAITS, a1c2="ACTIVE"))
    assert (step.record.attempt.node, step.record.attempt.chosen_s) == (f"{A1}c2", 3.0)
    assert (step.record.zone, step.record.attempt.state) == (HERE, "WAITING")
    assert step.actions == (DeleteSlice(FAR, A1),)
    ready = seen(4.0, requests={A1: "DELETING", f"{A1}c2": "ACTIVE"})
    step = lived(step.record, ready)
    assert (step.record.attempt.state, step.actions[0].attempt.node) == ("PREPARING", f"{A1}c2")
    gone = lived(step.record, seen(9.0, requests={A1: ABSENT, f"{A1}c2": "ACTIVE"})).record
    assert gone.attempt.others[0].billed_s == 0.0
    assert gone.events[-1].text == f"withdrew {KIND} in {FAR}: 0 s billed"
    assert gone.unwanted == ()


def test_of_two_that_are_active_at_once_the_preferred_type_is_chosen():
    record = searching(PLACES[0], PLACES[3])
    step = lived(record, asked(1.0), asked(2.0, a1="ACTIVE", a1c2="ACTIVE"))
    assert (step.record.attempt.node, step.record.accelerator_type) == (A1, KIND)
    assert step.actions == (DeleteSlice(HERE, f"{A1}c2"),)
    gone = lived(step.record, asked(14.0, a1="ACTIVE", a1c2=ABSENT)).record
    assert gone.attempt.others[0].billed_s == 12.0
    cheapest = replace(record, spec=replace(record.spec, search=Search(2, order="price")))
    step = lived(cheapest, asked(1.0), asked(2.0, a1="ACTIVE", a1c2="ACTIVE"))
    assert step.record.accelerator_type == "v6e-16"


def test_a_zone_that_is_out_makes_room_for_the_next_once_its_request_is_gone():
    waits = lived(searching(), asked(1.0), asked(2.0, a1=WAITS, a1c2=WAITS)).record
    out = replace(out_of_it(3.0, A1), requests={A1: "FAILED", f"{A1}c2": WAITS})
    step = lived(waits, out)
    assert asks(step.record) == [(HERE, KIND)]
    assert step.actions == (DeleteSlice(FAR, A1), RecordStockout(A1, FAR, KIND, 3.0))
    step = lived(step.record, asked(4.0, a1=ABSENT, a1c2=WAITS))
    assert asks(step.record) == [(HERE, KIND), (THERE, KIND)]
    assert step.record.attempt.number == 1


def test_a_zone_that_will_never_grant_it_is_not_asked_again_while_another_one_may():
    never = SliceRefusal("not open to you", "permission_denied", A1)
    waits = lived(searching(), asked(1.0), asked(2.0, a1c2=WAITS)).record
    refused = replace(asked(3.0, a1=ABSENT, a1c2=WAITS), refusals=(never,))
    record = lived(waits, refused, asked(4.0, a1=ABSENT, a1c2=WAITS)).record
    assert asks(record) == [(HERE, KIND), (THERE, KIND)]
    assert record.attempt.others[0].refusal == "permission_denied"
    alone = lived(job(), asked(1.0), replace(asked(2.0), refusals=(never,))).record
    assert (alone.state, alone.why) == ("FAILED", "not open to you")


def test_patience_is_a_field_and_nobody_leaves_a_queue_while_there_is_room():
    three, two = PLACES[:3], PLACES[:2]
    waits = lived(searching(*three, patience_s=60.0), asked(1.0), asked(2.0, a1=WAITS, a1c2=WAITS))
    assert waits.record.next_s == 62.0
    late = lived(waits.record, asked(63.0, a1=WAITS, a1c2=WAITS))
    assert asks(late.record) == [(HERE, KIND)]
    assert late.record.attempt.others[0].reason == f"no {KIND} in {FAR} for 61 s"
    both = lived(searching(*two, patience_s=60.0), asked(1.0), asked(2.0, a1=WAITS, a1c2=WAITS))
    late = lived(both.record, asked(9e5, a1=WAITS, a1c2=WAITS)).record
    assert (len(asks(late)), late.next_s) == (2, None)


def test_with_one_at_a_time_the_next_type_is_asked_before_the_first_one_again():
    record, _ = refused_everywhere(searching(PLACES[0], PLACES[3], at_once=1), 2, 1.0)
    assert [(each.zone, each.accelerator_type) for each in record.attempts] == [
        (HERE, KIND),
        (HERE, "v6e-16"),
    ]
    assert lived(record, asked(20.0)).record.why == (
        "us-west4-a out of v5litepod-16 or v6e-16 since 00:00Z, 2 tries"
    )


# ------------------------------------------------------------------ addresses are not chips

NEAR = "us-west4-b"


def no_address(now_s: float, name: str, reason: str) -> JobObservation:
    refusal = SliceRefusal("no addresses", reason, name)
    return replace(asked(now_s), requests={name: "FAILED"}, refusals=(refusal,))


def refused(record: JobRecord, reason: str, now_s: float = 1.0) -> JobRecord:
    """The job's next request fails for a reason of the network, and is deleted."""
    asking = lived(record, asked(now_s)).record
    name = asking.attempt.queued_resource
    gone = JobObservation(
        now_s + 0.2, requests={name: ABSENT}, looked_s=now_s + 0.2, zone_health={}
    )
    return lived(asking, no_address(now_s + 0.1, name, reason), gone).record


@pytest.mark.parametrize(
    ("reason", "zones"),
    [
        ("external_address_limit", [HERE, FAR]),
        ("no_such_subnetwork", [HERE, FAR]),
        ("external_address_policy", [HERE]),
        ("no_such_network", [HERE]),
    ],
)
def test_what_no_later_try_cures_fails_the_job_where_no_other_region_can_help(reason, zones):
    record, now_s = roaming(HERE, NEAR, FAR), 1.0
    while not record.is_ended:
        record, now_s = refused(record, reason, now_s), now_s + 1.0
    assert [attempt.zone for attempt in record.attempts] == zones
    assert {attempt.outcome for attempt in record.attempts} == {"refused"}
    assert (record.state, record.why, now_s < 5.0) == ("FAILED", "no addresses", True)


@pytest.mark.parametrize("reason", ["external_addresses_used", "subnet_full"])
def test_addresses_that_others_hold_are_no_stock_out_and_other_regions_are_tried(reason):
    record = refused(roaming(HERE, NEAR, FAR), reason)
    assert (record.attempts[0].outcome, record.attempts[0].refusal) == ("blocked", reason)
    step = lived(record, asked(2.0))
    assert step.record.attempt.zone == FAR
    assert not any(isinstance(action, RecordStockout) for action in step.actions)


def test_a_region_that_lacks_addresses_is_asked_less_and_less_and_given_up_in_the_end():
    record, now_s = job(), 1.0
    while not record.is_ended:
        record = refused(record, "subnet_full", now_s)
        if not record.is_ended:
            record = lived(record, asked(now_s + 0.3)).record
            assert (record.state, record.next_s > now_s) == ("WAITING", True)
            tries = len(record.attempts)
            assert record.why == (
                f"us-west4: the subnet has no addresses left, {tries} "
                f"{'try' if tries == 1 else 'tries'}"
            )
            now_s = record.next_s
    assert (record.state, len(record.attempts)) == ("FAILED", 8)
    assert 1800.0 < now_s < 3600.0


def test_while_the_quota_says_that_others_hold_the_addresses_nothing_is_asked_for():
    used = ZoneHealth(has_addresses=False, addresses="0 of 8 external addresses left")
    record = job()
    for now_s in (1.0, 700.0, 7000.0):
        record = lived(record, replace(asked(now_s), zone_health={(HERE, KIND): used})).record
        assert (record.state, record.attempts, record.next_s) == ("WAITING", (), None)
        assert record.why == "us-west4: 0 of 8 external addresses left"
    assert lived(record, asked(7060.0)).record.attempt.zone == HERE
    patient = replace(record, spec=replace(record.spec, timeouts=Timeouts(queue_s=7000.0)))
    late = lived(patient, replace(asked(7060.0), zone_health={(HERE, KIND): used})).record
    assert (late.state, late.why) == (
        "FAILED",
        "no v5litepod-16 within 7000 s; us-west4: 0 of 8 external addresses left",
    )


def test_a_smaller_type_may_have_the_addresses_that_a_larger_one_has_not():
    small, large = "v5litepod-16", "v5litepod-64"
    places = (Place(HERE, large), Place(NEAR, large), Place(HERE, small))
    record = refused(replace(roaming(HERE, NEAR), places=places), "external_address_limit")
    asking = lived(record, asked(2.0)).record.attempt
    assert (asking.zone, asking.accelerator_type) == (HERE, small)
