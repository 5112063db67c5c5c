"""Capacity: limits, steps in time, reservations."""

import pytest

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.model.nodes import Scheduling
from localsim.rules.model.queued_resources import QueueingPolicy
from unit.localsim.rules.cloud_rig import ZONE
from unit.localsim.rules.requests.requests_asked import asked, file, node, request, state, states

pytest_plugins = ("unit.localsim.rules.cloud_fixtures",)

WEST = "us-west4-a"
LATER = {WEST: {"v5litepod-16": [{"at_s": 0, "slices": 0}, {"at_s": 600, "slices": 2}]}}
ANY = f"{ZONE}/reservations/-"
MINE = f"{ZONE}/reservations/mine"
RESERVED = {"name": "mine", "zone": WEST, "accelerator_type": "v5litepod-16", "slices": 2}


def outcome(rig, node_id, scheduling=None, accelerator_type="v5litepod-16"):
    """How the operation of a new node ends."""
    spec = node(accelerator_type, scheduling=scheduling or Scheduling())
    operation = rig.cloud.create_node(ZONE, node_id, spec)
    rig.live(1)
    return rig.outcome(operation)


def test_a_stock_out_arrives_in_the_operation_and_names_other_zones(rigged):
    rig = rigged(capacity={WEST: {"v5litepod-16": 1}})
    assert [outcome(rig, name) for name in ("a", "b")] == ["", "RESOURCE_EXHAUSTED"]
    operation = rig.cloud.create_node(ZONE, "c", node())
    rig.live(1)
    message = rig.cloud.get_operation(operation.name).failure.message
    assert f'no more capacity in the zone "{WEST}"' in message
    assert "us-south1-a" in message
    assert "[EID: 0x" in message
    assert states(rig) == {"a": "READY"}


@pytest.mark.parametrize(
    ("capacity", "left"),
    [
        ({"*": {"*": 3}}, 3),
        ({"*": {"*": 3}, WEST: {"*": 2}}, 2),
        ({"*": {"v5litepod-16": 1}, WEST: {"v5litepod-4": 0}}, 1),
        ({WEST: {"*": 2, "v5litepod-16": 1}}, 1),
        ({"us-east5-b": {"*": 0}}, 4),
    ],
)
def test_the_nearest_entry_counts(rigged, capacity, left):
    rig = rigged(capacity=capacity)
    assert [outcome(rig, f"n{index}") for index in range(4)].count("") == left


def test_capacity_that_comes_later_is_given_to_those_who_wait(rigged):
    rig = rigged(capacity=LATER)
    for name in ("first", "second", "third"):
        file(rig, name)
        rig.live(1)
    rig.live(590)
    rig.restart()  # the scenario's time goes on
    assert outcome(rig, "too-early") == "RESOURCE_EXHAUSTED"
    rig.live(20)
    assert [state(rig, name) for name in ("first", "second", "third")] == [
        "ACTIVE",
        "ACTIVE",
        "WAITING_FOR_RESOURCES",
    ]


def test_a_tick_that_is_late_still_gives_capacity_when_it_came(rigged):
    rig = rigged(capacity=LATER)
    file(rig, "q")
    rig.tick(3600)
    begun_s = rig.node(f"{ZONE}/nodes/q-node").create_time_s - request(rig, "q").create_time_s
    assert begun_s == 600


def test_reserved_slices_come_from_the_reservation_alone(rigged):
    rig = rigged(capacity={WEST: {"*": 0}}, reservations=[RESERVED])
    assert outcome(rig, "a", Scheduling(reserved=True)) == ""
    assert outcome(rig, "b") == "RESOURCE_EXHAUSTED"
    (found,) = rig.cloud.list_reservations(ZONE).items
    assert (found.name, found.size, found.used) == (MINE, 32, 16)
    assert (found.state, found.capacity_units) == ("ACTIVE", "CHIPS")
    assert rig.node().spec.scheduling.reservation_name == MINE


def test_reservations_are_listed_page_by_page_or_all_at_once(rigged):
    rig = rigged(reservations=[{**RESERVED, "name": name} for name in "abc"])
    first = rig.cloud.list_reservations(ZONE, 1)
    rest = rig.cloud.list_reservations(ZONE, 0, first.next_token)
    names = [each.name[-1] for each in (*first.items, *rest.items)]
    assert (names, rest.next_token) == (["a", "b", "c"], "")
    assert len(rig.cloud.list_reservations(ZONE).items) == 3


def test_a_reservation_that_is_too_small_is_failed_precondition(rigged):
    rig = rigged(reservations=[{**RESERVED, "slices": 1}])
    assert outcome(rig, "a", Scheduling(reserved=True)) == ""
    assert outcome(rig, "b", Scheduling(reserved=True)) == "FAILED_PRECONDITION"
    file(rig, "q", asked(slices=2, reservation_name=ANY))
    rig.live(1)
    found = request(rig, "q")
    assert (found.state, found.failure.code) == ("FAILED", Code.FAILED_PRECONDITION)
    assert "insufficient reserved capacity" in found.failure.message
    assert "[EID: 0x" in found.failure.message


def test_a_request_waits_for_a_reservation_that_is_in_use(rigged):
    rig = rigged(reservations=[{**RESERVED, "slices": 1}])
    outcome(rig, "a", Scheduling(reserved=True))
    file(rig, "q", asked("b", reservation_name=MINE))
    rig.live(1)
    assert state(rig, "q") == "WAITING_FOR_RESOURCES"
    rig.cloud.delete_node(f"{ZONE}/nodes/a")
    rig.live(2)
    assert state(rig, "q") == "ACTIVE"
    rig.cloud.delete_queued_resource(f"{ZONE}/queuedResources/q", force=True)
    rig.live(1)
    assert rig.cloud.list_reservations(ZONE).items[0].used == 0


def test_a_request_waits_until_its_reservation_begins(rigged):
    rig = rigged(reservations=[{**RESERVED, "start_s": 100}])
    file(rig, "q", asked(reservation_name=ANY))
    rig.live(99)
    assert state(rig, "q") == "WAITING_FOR_RESOURCES"
    rig.live(3)
    assert state(rig, "q") == "ACTIVE"


def test_a_request_whose_window_passed_holds_up_nobody(rigged):
    rig = rigged(expired_requests="wait", capacity={WEST: {"*": [{"at_s": 60, "slices": 1}]}})
    file(rig, "late", asked("a", queueing=QueueingPolicy("valid_until_duration", duration_s=30)))
    file(rig, "next", asked("b"))
    rig.live(62)
    assert (state(rig, "late"), state(rig, "next")) == ("WAITING_FOR_RESOURCES", "ACTIVE")


def test_a_repair_whose_reservation_is_gone_waits(rigged):
    rig = rigged(reservations=[RESERVED])
    file(rig, "q", asked(slices=2, reservation_name=ANY))
    rig.live(2)
    rig.cloud.change_scenario({"reservations": None})
    rig.cloud.preempt(f"{ZONE}/nodes/q-0", 0)
    rig.live(60)
    assert (state(rig, "q"), states(rig)) == ("ACTIVE", {"q-0": "PREEMPTED", "q-1": "READY"})


def test_a_reservation_has_its_time(rigged):
    rig = rigged(reservations=[{**RESERVED, "start_s": 100, "end_s": 200}])
    seen = []
    for _ in range(3):
        rig.live(90)
        seen.append(rig.cloud.list_reservations("projects/demo/locations/-").items[0].state)
    assert seen == ["APPROVED", "ACTIVE", "EXPIRED"]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (f"{ZONE}/reservations/other", "NOT_FOUND"),
        ("mine", "INVALID_ARGUMENT"),
        ("projects/demo/locations/us-east5-b/reservations/mine", "INVALID_ARGUMENT"),
        (f"{ZONE}/reservations/", "INVALID_ARGUMENT"),
    ],
)
def test_reservations_that_cannot_be_meant(rigged, name, code):
    rig = rigged(reservations=[RESERVED])
    for act in (
        lambda: file(rig, "q", asked(reservation_name=name)),
        lambda: outcome(rig, "a", Scheduling(reserved=True, reservation_name=name)),
    ):
        with pytest.raises(CloudError) as error:
            act()
        assert error.value.code.name == code
