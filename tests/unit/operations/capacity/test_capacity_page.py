"""The page is made of what is known so far."""

from dataclasses import replace

import pytest

from tpuctl.api.service_usage import QuotaLimit
from tpuctl.errors import (
    DeadlineError,
    NotFoundError,
    PermissionDeniedError,
    TransientError,
    UsageError,
)
from tpuctl.models.capacity.capacity_event import (
    CapacityEvent,
    CapacityEventKind,
    RefusalCause,
    Reservation,
    request_key,
)
from tpuctl.models.node import ListedNode, Provisioning
from tpuctl.models.queued_resource import QueuedResource
from tpuctl.operations.capacity.capacity_page import (
    CapacityFacts,
    CapacityQuestion,
    capacity_page,
    history_of,
)
from tpuctl.operations.capacity.capacity_survey import CapacityTopic, facts_of, troubles_of
from tpuctl.operations.capacity.next_step import next_step
from tpuctl.operations.capacity.side_by_side import ask_side_by_side
from tpuctl.operations.capacity.type_names import resolve_type
from tpuctl.operations.capacity.zone_capacity import Chance

NOW_S = 1_795_000_000.0
ASKED = CapacityQuestion("v5litepod-16", ("us-west4-a", "us-west4-b"), NOW_S, Provisioning.SPOT)
LIMIT = QuotaLimit("tpuv5slitepod", True, "zone", 16, {"us-west4-b": 32})  # noqa: FBT003
NODE = ListedNode("n1", "us-west4-a", "v5litepod-16", "PREEMPTED", 4, "spot", 0)
WAITING = QueuedResource(
    "q1", "us-west4-b", "WAITING_FOR_RESOURCES", "USER", ("q1",), "v5litepod-16", "v2", "spot",
    NOW_S - 600,
)  # fmt: skip
LISTED = CapacityFacts(limits=[LIMIT], nodes=[NODE], requests=[])


def zones(facts: CapacityFacts, asked: CapacityQuestion = ASKED):
    return {zone.zone: zone for zone in capacity_page(asked, facts).zones}


def event(kind, ago_s: float, key: str = "k", **changes) -> CapacityEvent:
    at_first = CapacityEvent(key, kind, NOW_S - ago_s, "v5litepod-16", "us-west4-a", "spot")
    return replace(at_first, **changes)


def test_before_anybody_has_answered_there_are_zones_and_prices():
    page = capacity_page(replace(ASKED, provisioning=None), CapacityFacts())
    assert (page.observations, page.troubles) == (None, ())
    (first, second) = page.zones
    assert (first.zone, second.zone) == ("us-west4-a", "us-west4-b")
    assert [(offer.provisioning.value, offer.usd_per_hour) for offer in first.offers] == [
        ("spot", 9.712),
        ("on-demand", 19.2),
        ("flex-start", 9.6),
    ]


def test_quota_that_is_used_up_names_its_holders_and_the_other_zone_comes_first():
    page = capacity_page(ASKED, LISTED)
    assert [zone.zone for zone in page.zones] == ["us-west4-b", "us-west4-a"]
    lacks = page.zones[1].best
    assert (lacks.chance, lacks.quota.left, lacks.quota.limit) == (Chance.NO_QUOTA, 0, 16)
    assert [holder.name for holder in lacks.holders] == ["n1"]
    assert next_step(page) == "tpuctl qr create NAME -t v5litepod-16 --zone us-west4-b --spot"


def test_where_no_quota_is_left_the_next_step_frees_some_or_asks_for_more():
    here = replace(ASKED, zones=("us-west4-a",))
    assert next_step(capacity_page(here, LISTED)) == "tpuctl node delete n1 --zone us-west4-a"
    none = replace(LISTED, limits=[replace(LIMIT, default=0)], nodes=[])
    assert next_step(capacity_page(here, none)).startswith("ask for more quota")


def test_where_no_zone_answers_the_next_step_finds_out_why():
    facts = CapacityFacts(silent=frozenset(ASKED.zones))
    page = capacity_page(ASKED, facts)
    assert [zone.best.chance for zone in page.zones] == [Chance.SILENT, Chance.SILENT]
    assert next_step(page) == "tpuctl context check"
    silent = {(CapacityTopic.TYPES, f"z{n}"): TransientError("away") for n in range(6)}
    assert list(troubles_of(silent)) == ["z0, z1, z2, z3 and 2 more did not answer"]


def test_quota_is_unknown_until_limits_nodes_and_requests_are_known():
    for missing in ("limits", "nodes", "requests"):
        assert zones(replace(LISTED, **{missing: None}))["us-west4-a"].best.quota is None
    silent = replace(LISTED, silent=frozenset({"us-west4-a"}))
    assert zones(silent)["us-west4-a"].best.quota is None


def test_a_request_that_waits_now_is_a_refusal_and_counts_once():
    key = request_key("us-west4-b", "q1", NOW_S - 600)
    seen = event(CapacityEventKind.REFUSED, 60, key, cause=RefusalCause.STOCKOUT, zone="us-west4-b")
    facts = CapacityFacts(requests=[WAITING], shared_events=[seen], job_events=[])
    found = zones(facts)["us-west4-b"].best
    assert (found.chance, found.history.refusals, found.history.waiting) == (Chance.REFUSED, 1, 1)
    later = replace(WAITING, valid_after_s=NOW_S + 60)
    assert zones(CapacityFacts(requests=[later]))["us-west4-b"].best.chance == Chance.OPEN


def test_medians_are_those_of_what_is_known():
    found = history_of(
        [
            event(CapacityEventKind.GRANTED, 50, after_s=10.0),
            event(CapacityEventKind.GRANTED, 40, after_s=None),
            event(CapacityEventKind.GRANTED, 30, after_s=90.0),
            event(CapacityEventKind.PREEMPTED, 20, after_s=3600.0),
        ]
    )
    assert (found.grants, found.wait_s, found.preemptions, found.life_s) == (3, 50.0, 1, 3600.0)
    assert found.last_grant == event(CapacityEventKind.GRANTED, 30, after_s=90.0)


def test_only_the_type_and_the_days_that_are_asked_for_are_counted():
    day_s = 86_400
    facts = CapacityFacts(
        shared_events=[
            event(CapacityEventKind.GRANTED, 8 * day_s, "a"),
            event(CapacityEventKind.GRANTED, 6 * day_s, "b"),
            event(CapacityEventKind.GRANTED, 6 * day_s, "c", accelerator_type="v5litepod-8"),
            event(CapacityEventKind.GRANTED, 6 * day_s, "d", provisioning="on-demand"),
        ]
    )
    assert capacity_page(ASKED, facts).observations == 2
    assert zones(facts)["us-west4-a"].best.history.grants == 1


def test_what_is_shared_and_told_by_a_job_as_well_counts_once():
    told = event(CapacityEventKind.REFUSED, 60, cause=RefusalCause.STOCKOUT)
    shared = replace(told, cause=RefusalCause.QUOTA, time_s=told.time_s - 1)
    page = capacity_page(ASKED, CapacityFacts(shared_events=[shared], job_events=[told]))
    found = page.zones[-1].best.history
    assert (page.observations, found.refusals, found.last_refusal.cause) == (1, 1, "quota")


def test_reservations_of_the_generation_and_those_that_requests_name():
    ours = Reservation("r1", "us-west4-a", "V5LITE_POD", "ACTIVE", 16, 0, "chips")
    theirs = replace(ours, name="r2", generation="V6E")
    named = replace(
        WAITING, zone="us-west4-a", provisioning="reserved",
        reservation="projects/p/locations/us-west4-a/reservations/r3",
    )  # fmt: skip
    facts = CapacityFacts(requests=[named], reservations={"us-west4-a": [ours, theirs]})
    page = capacity_page(replace(ASKED, provisioning=None), facts)
    best = page.zones[0]
    assert (best.zone, best.best.chance) == ("us-west4-a", Chance.RESERVED)
    assert (best.reservations, best.reservation_names) == ((ours,), ("r3",))
    assert next_step(page).endswith("--zone us-west4-a --reservation r1")


def test_answers_and_errors_become_facts_and_lines():
    answers = {
        (CapacityTopic.NODES, ""): ([NODE], ["us-west4-b"]),
        (CapacityTopic.QUOTA, ""): PermissionDeniedError("you may not"),
        (CapacityTopic.TYPES, "us-west4-a"): frozenset({"v5litepod-16"}),
        (CapacityTopic.TYPES, "us-west4-b"): DeadlineError("no answer within 10 s"),
        (CapacityTopic.RESERVATIONS, "us-west4-a"): PermissionDeniedError("nor this"),
        (CapacityTopic.RESERVATIONS, "us-west4-c"): TransientError("it is away"),
    }
    facts = facts_of(answers)
    assert (facts.nodes, facts.limits, facts.types) == (
        [NODE],
        None,
        {"us-west4-a": frozenset({"v5litepod-16"})},
    )
    assert list(troubles_of(answers)) == [
        "us-west4-b, us-west4-c did not answer",
        "what is left of the quota is unknown: you may not",
        "the list of reservations is unknown: nor this",
    ]


def test_who_does_not_answer_in_time_is_not_waited_for():
    import threading

    never = threading.Event()
    found = dict(ask_side_by_side({"a": never.wait}, 0.0))
    never.set()
    assert isinstance(found["a"], DeadlineError)


def test_an_error_is_an_answer_and_a_bug_is_raised():
    def refuse():
        raise PermissionDeniedError("you may not")

    found = dict(ask_side_by_side({"a": refuse, "b": lambda: 7}, 60.0))
    assert (str(found["a"]), found["b"]) == ("you may not", 7)
    with pytest.raises(ZeroDivisionError):
        list(ask_side_by_side({"a": lambda: 1 / 0}, 60.0))


def test_a_type_may_be_named_by_its_generation():
    typed = ("v5litepod-16", "v5e-16", " V5E-16 ", "v5p-8", "v4-8", "v6e-1")
    assert [resolve_type(each) for each in typed] == [
        "v5litepod-16", "v5litepod-16", "v5litepod-16", "v5p-8", "v4-8", "v6e-1",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="v6e is a generation"):
        resolve_type("v6e")
    with pytest.raises(UsageError, match="unknown accelerator type 'v5litepod-17'"):
        resolve_type("v5e-17")
    for nowhere in ("v7x", "tpu7x", "v7x-16", "tpu7x-16"):
        with pytest.raises(NotFoundError, match="the Cloud TPU API ends at v6e"):
            resolve_type(nowhere)
