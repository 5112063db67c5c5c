"""Which zone is asked first, by a rule that a person can follow."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tpuctl.jobs.remaining_quota import QuotaLeft
from tpuctl.models.capacity.capacity_event import (
    CapacityEvent,
    CapacityEventKind,
    RefusalCause,
    Reservation,
)
from tpuctl.models.node import Provisioning
from tpuctl.operations.capacity.ranking import BEST_FIRST, chance_of, rank_zones
from tpuctl.operations.capacity.zone_capacity import (
    CapacityHistory,
    Chance,
    ZoneCapacity,
    ZoneOffer,
)

NOW_S, HOUR_S = 1_000_000.0, 3600.0
SPOT = ZoneOffer(Provisioning.SPOT, 9.0)
ZONE = ZoneCapacity("us-west4-a", "v5litepod-16", (SPOT,), has_type=True)
ENOUGH, USED_UP = QuotaLeft(16, 16, "chips", 16), QuotaLeft(8, 16, "chips", 16)


def event(kind: CapacityEventKind, hours_ago: float, cause=None) -> CapacityEvent:
    time_s = NOW_S - hours_ago * HOUR_S
    return CapacityEvent("k", kind, time_s, "v5litepod-16", "us-west4-a", "spot", cause=cause)


def history(refused_h=None, granted_h=None, cause=RefusalCause.STOCKOUT, waiting=0):
    """What happened so many hours ago."""
    return CapacityHistory(
        last_refusal=None if refused_h is None else event(KINDS.REFUSED, refused_h, cause),
        last_grant=None if granted_h is None else event(KINDS.GRANTED, granted_h),
        waiting=waiting,
    )


KINDS = CapacityEventKind
CASES = [
    (history(), None, Chance.OPEN),
    (history(granted_h=100), None, Chance.GRANTED),
    (history(refused_h=1), None, Chance.REFUSED),
    (history(refused_h=1, granted_h=2), ENOUGH, Chance.REFUSED),
    (history(refused_h=2, granted_h=1), ENOUGH, Chance.GRANTED),
    (history(refused_h=7), None, Chance.OPEN),
    (history(refused_h=7, granted_h=8), None, Chance.GRANTED),
    (history(granted_h=1, waiting=1), None, Chance.REFUSED),
    (history(refused_h=1, cause=RefusalCause.QUOTA), ENOUGH, Chance.OPEN),
    (history(refused_h=1, cause=RefusalCause.QUOTA), None, Chance.REFUSED),
    (history(refused_h=1, cause=RefusalCause.ADDRESSES), ENOUGH, Chance.REFUSED),
    (history(granted_h=1), USED_UP, Chance.NO_QUOTA),
    (history(refused_h=100, cause=RefusalCause.PERMISSION), ENOUGH, Chance.CLOSED),
    (history(refused_h=9, granted_h=8, cause=RefusalCause.PERMISSION), None, Chance.GRANTED),
]


def test_the_chance_follows_from_what_is_known():
    found = [
        chance_of(replace(SPOT, history=past, quota=quota), ZONE, NOW_S, is_silent=False)
        for past, quota, _ in CASES
    ]
    assert found == [chance for _, _, chance in CASES]


def test_a_zone_that_the_api_does_not_offer_is_closed_and_one_without_an_answer_silent():
    lacks = replace(ZONE, has_type=False)
    assert chance_of(SPOT, lacks, NOW_S, is_silent=False) == Chance.CLOSED
    unknown = replace(ZONE, has_type=None)
    assert chance_of(SPOT, unknown, NOW_S, is_silent=True) == Chance.SILENT
    assert chance_of(SPOT, unknown, NOW_S, is_silent=False) == Chance.OPEN


def test_a_reservation_counts_while_it_is_active_and_has_room_for_a_slice():
    def chance(state: str, used: int, unit: str = "chips") -> Chance:
        reserved = Reservation("r1", "us-west4-a", "V5LITE_POD", state, 32, used, unit)
        zone = replace(ZONE, reservations=(reserved,))
        offer = ZoneOffer(Provisioning.RESERVED, None)
        return chance_of(offer, zone, NOW_S, is_silent=False)

    assert [chance("ACTIVE", 16), chance("ACTIVE", 17), chance("APPROVED", 0)] == [
        *(Chance.RESERVED, Chance.NO_QUOTA, Chance.NO_QUOTA),
    ]
    assert chance("ACTIVE", 16, "TensorCores") == Chance.RESERVED


def zone(name: str, *offers: ZoneOffer, distance: int = 0) -> ZoneCapacity:
    return ZoneCapacity(name, "v5litepod-16", offers, distance)


def names(*zones: ZoneCapacity) -> list[str]:
    return [each.zone for each in rank_zones(zones)]


def test_chance_then_known_quota_then_price_then_distance_then_name_decide():
    unknown, known = SPOT, replace(SPOT, quota=ENOUGH, usd_per_hour=99.0)
    granted = replace(SPOT, chance=Chance.GRANTED, usd_per_hour=None)
    ranked = names(
        zone("f-far", SPOT, distance=2),
        zone("e-near", SPOT),
        zone("d-near", SPOT),
        zone("c-dear", replace(unknown, usd_per_hour=10.0)),
        zone("b-no-price", replace(unknown, usd_per_hour=None)),
        zone("a-refused", replace(known, chance=Chance.REFUSED, usd_per_hour=1.0)),
        zone("y-known", known),
        zone("z-granted", granted),
    )
    assert ranked == [
        "z-granted", "y-known", "d-near", "e-near", "f-far", "c-dear", "b-no-price", "a-refused",
    ]  # fmt: skip


def test_the_best_offer_of_a_zone_speaks_for_it_but_flex_start_only_when_asked_for():
    flex = ZoneOffer(Provisioning.FLEX_START, 1.0, chance=Chance.GRANTED)
    dear = ZoneOffer(Provisioning.ON_DEMAND, 20.0)
    (found,) = rank_zones([zone("us-west4-a", flex, dear, SPOT)])
    assert [offer.provisioning for offer in found.offers] == ["spot", "on-demand", "flex-start"]
    assert names(zone("b", flex), zone("a", replace(flex, chance=Chance.OPEN))) == ["b", "a"]


OFFERS = st.builds(
    ZoneOffer,
    provisioning=st.sampled_from([Provisioning.ON_DEMAND, Provisioning.SPOT]),
    usd_per_hour=st.sampled_from([None, 1.0, 2.0]),
    quota=st.sampled_from([None, ENOUGH]),
    chance=st.sampled_from(list(Chance)),
)
ZONES = st.lists(
    st.builds(
        ZoneCapacity,
        zone=st.sampled_from("abcdef"),
        accelerator_type=st.just("v5litepod-16"),
        offers=st.lists(OFFERS, min_size=1, max_size=2).map(tuple),
        distance=st.integers(0, 2),
    ),
    unique_by=lambda each: each.zone,
)


@given(ZONES, st.randoms())
def test_the_order_depends_on_nothing_but_the_zones(zones, random):
    shuffled = list(zones)
    random.shuffle(shuffled)
    ranked = rank_zones(zones)
    assert [each.zone for each in rank_zones(shuffled)] == [each.zone for each in ranked]
    chances = [BEST_FIRST.index(each.best.chance) for each in ranked]
    assert chances == sorted(chances)


@given(
    st.floats(0, 200), st.floats(0, 200), st.sampled_from(list(RefusalCause)),
    st.sampled_from([None, ENOUGH, USED_UP]),
)  # fmt: skip
def test_a_refusal_more_never_makes_the_chance_better(refused_h, granted_h, cause, quota):
    def rank(past: CapacityHistory) -> int:
        offer = replace(SPOT, history=past, quota=quota)
        return BEST_FIRST.index(chance_of(offer, ZONE, NOW_S, is_silent=False))

    before, after = history(granted_h=granted_h), history(refused_h, granted_h, cause)
    assert rank(after) >= rank(before)
