"""Queued resources: their windows, tiers, runs, and what users do to them."""

import pytest

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.model.events import BootSlice, DestroySlice
from localsim.rules.model.nodes import Scheduling
from localsim.rules.model.queued_resources import Initiator, QueueingPolicy, Tier
from unit.localsim.rules.cloud_rig import START_S, WORKER, ZONE
from unit.localsim.rules.requests.requests_asked import asked, file, node, request, state, states

pytest_plugins = ("unit.localsim.rules.cloud_fixtures",)

UUID = "2f1f6a4c-5d3e-4c58-9a53-9a8f0b9d2c11"


def refusal(act):
    with pytest.raises(CloudError) as error:
        act()
    return error.value.code.name, error.value.message.partition(" [EID")[0]


def failure(rig, queued_resource_id="q"):
    found = request(rig, queued_resource_id)
    assert found.state == "FAILED"
    return found.failure.code, found.failure.message


@pytest.fixture
def active(rig):
    file(rig)
    rig.live(2)
    assert state(rig) == "ACTIVE"
    return rig


def test_there_is_no_node_before_provisioning_starts(rig):
    file(rig)
    rig.live(0.2)
    assert (state(rig), states(rig)) == ("ACCEPTED", {})
    rig.live(0.1)
    assert (state(rig), states(rig)) == ("PROVISIONING", {"q-node": "CREATING"})


def test_the_same_request_is_filed_once_even_when_its_window_has_passed(rig):
    soon = asked(queueing=QueueingPolicy("valid_until_time", until_s=START_S + 5))
    first = file(rig, spec=soon, request_id=UUID)
    rig.live(10)
    assert file(rig, spec=soon, request_id=UUID).name == first.name
    code, message = refusal(lambda: file(rig, spec=asked("b"), request_id=UUID))
    assert (code, "another request" in message) == ("INVALID_ARGUMENT", True)
    assert refusal(lambda: file(rig, request_id="r-1"))[0] == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("queueing", "after_s"),
    [
        (QueueingPolicy("valid_after_duration", duration_s=60), 60),
        (QueueingPolicy("valid_after_time", after_s=START_S + 60), 60),
        (QueueingPolicy("valid_interval", after_s=START_S + 60, until_s=START_S + 90), 60),
        (QueueingPolicy("valid_until_duration", duration_s=60), 0.3),
    ],
)
def test_nothing_is_provisioned_before_the_window_opens(rig, queueing, after_s):
    file(rig, spec=asked(queueing=queueing))
    rig.live(after_s - 0.1)
    assert state(rig) == "ACCEPTED"
    rig.live(0.2)
    assert state(rig) == "PROVISIONING"


@pytest.mark.parametrize(
    ("expired", "after_the_end"), [("fail", "FAILED"), ("wait", "WAITING_FOR_RESOURCES")]
)
def test_a_request_whose_window_passed_fails_or_waits_for_ever(rigged, expired, after_the_end):
    capacity = {"us-west4-a": {"v5litepod-16": [{"at_s": 120, "slices": 1}]}}
    rig = rigged(expired_requests=expired, capacity=capacity)
    file(rig, spec=asked(queueing=QueueingPolicy("valid_until_duration", duration_s=60)))
    rig.live(59)
    assert state(rig) == "WAITING_FOR_RESOURCES"
    rig.live(1)
    assert state(rig) == after_the_end
    rig.live(3600)
    assert (state(rig), states(rig)) == (after_the_end, {})
    if expired == "fail":
        assert failure(rig)[0] == Code.DEADLINE_EXCEEDED


def test_a_window_does_not_end_what_is_active(rig):
    file(rig, spec=asked(queueing=QueueingPolicy("valid_until_duration", duration_s=60)))
    rig.live(5)
    rig.live(100)
    assert state(rig) == "ACTIVE"


@pytest.mark.parametrize(
    ("queueing", "cause"),
    [
        (QueueingPolicy("valid_until_time", until_s=START_S - 1), "must be in the future"),
        (QueueingPolicy("valid_until_duration", duration_s=0), "must be in the future"),
        (QueueingPolicy("valid_until_duration", duration_s=-5), "must not be negative"),
        (QueueingPolicy("valid_after_duration", duration_s=-5), "must not be negative"),
        (
            QueueingPolicy("valid_interval", after_s=START_S + 9, until_s=START_S + 8),
            "must end after it begins",
        ),
    ],
)
def test_windows_that_are_none(rig, queueing, cause):
    code, message = refusal(lambda: file(rig, spec=asked(queueing=queueing)))
    assert (code, cause in message) == ("INVALID_ARGUMENT", True)
    assert rig.cloud.counts()["queued_resources"] == 0


@pytest.mark.parametrize(
    ("fields", "scheduling"),
    [
        ({}, Scheduling()),
        ({"tier": Tier.SPOT}, Scheduling(spot=True)),
        ({"provisioning_model": "SPOT"}, Scheduling(spot=True)),
        ({"tier": Tier.BEST_EFFORT}, Scheduling(preemptible=True)),
        ({"tier": Tier.GUARANTEED, "min_duration_s": 60.0}, Scheduling()),
    ],
)
def test_the_tier_of_a_request_is_that_of_its_node(rig, fields, scheduling):
    file(rig, spec=asked(**fields))
    rig.live(2)
    assert rig.node().spec.scheduling == scheduling


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        (asked(spec=node(scheduling=Scheduling(spot=True))), "belongs to the queued resource"),
        (asked(tier=Tier.GUARANTEED, min_duration_s=-1), "must not be negative"),
        (asked(tier=Tier.SPOT, reservation_name=f"{ZONE}/reservations/-"), "reservation"),
        (asked(provisioning_model="FLEX_START"), "maximum run duration"),
        (asked(provisioning_model="FLEX_START", max_run_duration_s=8 * 86400.0), "at most"),
        (asked(max_run_duration_s=60), "needs the provisioning model FLEX_START"),
        (asked(provisioning_model="RESERVATION_BOUND"), "needs a 'reservation_name'"),
        (asked(provisioning_model="MAGIC"), "Invalid provisioning model"),
        (asked(provisioning_model="SPOT", tier=Tier.BEST_EFFORT), "does not go with"),
        (asked(zone="projects/demo/locations/us-east5-b"), "parent must be"),
    ],
)
def test_what_cannot_be_filed(rig, spec, cause):
    code, message = refusal(lambda: file(rig, spec=spec))
    assert (code, cause in message) == ("INVALID_ARGUMENT", True), message


def test_flex_start_ends_with_its_longest_run(rig):
    file(rig, spec=asked(provisioning_model="FLEX_START", max_run_duration_s=600.0))
    rig.live(2)
    assert state(rig) == "ACTIVE"
    end_s = rig.node().spec.scheduling.termination_time_s
    rig.live(599)
    assert (state(rig), end_s) == ("ACTIVE", START_S + 602)
    rig.live(2)
    found = request(rig)
    assert (found.state, found.initiator, states(rig)) == ("SUSPENDED", Initiator.SERVICE, {})


def test_flex_start_that_is_not_offered_ends_the_operation(rig):
    zone = "projects/demo/locations/us-central2-b"
    flex = {"provisioning_model": "FLEX_START", "max_run_duration_s": 600.0}
    operation = file(rig, spec=asked(spec=node("v4-8"), zone=zone, **flex), zone=zone)
    rig.live()
    assert rig.outcome(operation) == "INVALID_ARGUMENT"
    assert state(rig, zone=zone) == "FAILED"


def test_capacity_that_is_gone_at_the_last_moment_fails_the_request(rigged):
    steps = [{"at_s": 0, "slices": 1}, {"at_s": 0.5, "slices": 0}]
    rig = rigged(capacity={"us-west4-a": {"v5litepod-16": steps}})
    file(rig)
    rig.live(0.4)
    assert states(rig) == {"q-node": "CREATING"}
    rig.live(5)
    code, message = failure(rig)
    assert (code, states(rig)) == (Code.RESOURCE_EXHAUSTED, {})
    assert "GCE_STOCKOUT" in message


@pytest.mark.parametrize(
    ("state_name", "forced", "refused"),
    [
        ("ACCEPTED", False, None),
        ("WAITING_FOR_RESOURCES", False, None),
        ("PROVISIONING", False, "while in state PROVISIONING"),
        ("PROVISIONING", True, "while in state PROVISIONING"),
        ("ACTIVE", False, "while in state ACTIVE"),
        ("ACTIVE", True, None),
        ("SUSPENDING", True, None),
        ("SUSPENDED", False, None),
        ("FAILED", False, None),
    ],
)
def test_which_states_can_be_deleted(rigged, state_name, forced, refused):
    rig = rigged(capacity={"us-west4-a": {"v5litepod-16": 0 if state_name[0] == "W" else 1}})
    file(rig, spec=asked())
    rig.live(0.2)
    reach(rig, state_name)
    assert state(rig) == state_name

    def delete():
        name = f"{ZONE}/queuedResources/q"
        return rig.cloud.delete_queued_resource(name, force=forced)

    if refused:
        code, message = refusal(delete)
        assert (code, f"is not supported {refused}" in message) == ("FAILED_PRECONDITION", True)
        return
    operation = delete()
    rig.live(1)
    assert (rig.outcome(operation), states(rig)) == ("", {})
    assert rig.cloud.counts()["queued_resources"] == 0


def reach(rig, state_name):
    if state_name == "ACCEPTED":
        return
    rig.live(0.2)
    if state_name == "FAILED":
        rig.cloud.delete_node(f"{ZONE}/nodes/a")
        rig.live(1)
    if state_name in ("PROVISIONING", "WAITING_FOR_RESOURCES", "FAILED"):
        return
    rig.live(2)
    if state_name.startswith("SUSPEND"):
        rig.cloud.preempt(f"{ZONE}/nodes/a", 0)
        rig.live(0 if state_name == "SUSPENDING" else 1)


def test_without_its_nodes_a_suspending_request_needs_no_force(rigged):
    rig = rigged(suspension_delay_s=60)
    file(rig)
    rig.live(2)
    rig.cloud.delete_node(f"{ZONE}/nodes/q-node")
    rig.live(1)
    assert (state(rig), states(rig)) == ("SUSPENDING", {})
    rig.cloud.delete_queued_resource(f"{ZONE}/queuedResources/q")
    assert state(rig) == "DELETING"


def test_a_reset_makes_the_nodes_anew(active):
    rig, before = active, active.node(f"{ZONE}/nodes/q-node")
    operation = rig.cloud.reset_queued_resource(f"{ZONE}/queuedResources/q")
    assert (state(rig), states(rig)) == ("ACCEPTED", {"q-node": "DELETING"})
    assert [type(event) for event in rig.tick()] == [DestroySlice]
    rig.restart()
    rig.live(3)
    after = rig.node(f"{ZONE}/nodes/q-node")
    assert (state(rig), rig.outcome(operation)) == ("ACTIVE", "")
    assert (after.state, after.id != before.id) == ("READY", True)


def test_a_suspended_request_can_be_reset_and_a_provisioning_one_cannot(rig):
    file(rig)
    rig.tick(0.5)
    assert refusal(lambda: rig.cloud.reset_queued_resource(f"{ZONE}/queuedResources/q")) == (
        "FAILED_PRECONDITION",
        f"'reset' of '{ZONE}/queuedResources/q' is not supported while in state PROVISIONING.",
    )
    rig.live(2)
    rig.cloud.preempt(f"{ZONE}/nodes/q-node", 0)
    rig.live(1)
    assert state(rig) == "SUSPENDED"
    rig.cloud.reset_queued_resource(f"{ZONE}/queuedResources/q")
    rig.live(3)
    assert (state(rig), states(rig)) == ("ACTIVE", {"q-node": "READY"})


def test_a_boot_that_fails_fails_the_request(rig):
    file(rig)
    (boot,) = (event for event in rig.tick(2) if isinstance(event, BootSlice))
    rig.cloud.mark_slice_failed(boot.node.name, "no disk")
    assert failure(rig) == (Code.INTERNAL, "no disk")
    rig.cloud.mark_slice_booted(boot.node.name, [WORKER] * 4)
    assert states(rig) == {}
