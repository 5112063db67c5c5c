"""Several slices in one request: all or none, and what the service does when one is lost."""

import pytest

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.model.queued_resources import Tier
from unit.localsim.rules.cloud_rig import WORKER, ZONE
from unit.localsim.rules.requests.requests_asked import asked, file, node, request, state, states

pytest_plugins = ("unit.localsim.rules.cloud_fixtures",)

SPOT = {"tier": Tier.SPOT}


def test_a_request_is_written_out_node_by_node(rig):
    file(rig, spec=asked(slices=3))
    assert [each.node_id for each in request(rig).spec.nodes] == ["q-0", "q-1", "q-2"]
    rig.live(2)
    assert (state(rig), states(rig)) == ("ACTIVE", dict.fromkeys(["q-0", "q-1", "q-2"], "READY"))
    assert all(each.multislice for each in rig.cloud.list_nodes(ZONE).items)


def test_nodes_are_named_by_the_prefix(rig):
    file(rig, spec=asked(slices=2, prefix="train"))
    rig.live(2)
    assert list(states(rig)) == ["train-0", "train-1"]


def test_a_single_node_is_no_multislice(rig):
    file(rig)
    rig.live(2)
    assert not rig.node(f"{ZONE}/nodes/q-node").multislice


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        (asked(slices=1), "from 2 to"),
        (asked(slices=0), "from 2 to"),
        (asked(slices=10**6), "from 2 to"),
        (asked(slices=2, spec=node("v2-8")), "could not be found"),
        (asked(slices=2, prefix="no/slash"), "Invalid node id"),
    ],
)
def test_what_cannot_be_filed(rig, spec, cause):
    with pytest.raises(CloudError, match=cause):
        file(rig, spec=spec)


def test_older_generations_have_no_multislice(rig):
    zone = "projects/demo/locations/europe-west4-a"
    with pytest.raises(CloudError, match="Multislice is not supported"):
        file(rig, spec=asked(slices=2, spec=node("v3-8"), zone=zone), zone=zone)


def test_capacity_is_given_for_all_slices_or_none(rigged):
    rig = rigged(capacity={"us-west4-a": {"v5litepod-16": 2}})
    file(rig, "wide", asked(slices=3))
    rig.live(1)
    assert (state(rig, "wide"), states(rig)) == ("WAITING_FOR_RESOURCES", {})
    file(rig, "narrow", asked(slices=2))
    rig.live(2)
    assert state(rig, "narrow") == "ACTIVE"
    rig.cloud.change_scenario({"capacity": {"us-west4-a": {"v5litepod-16": 5}}})
    rig.live(2)
    assert (state(rig, "wide"), len(states(rig))) == ("ACTIVE", 5)


def test_a_preempted_slice_is_repaired_and_the_others_restart(rig):
    file(rig, spec=asked(slices=3, **SPOT))
    rig.live(2)
    before = {each.node_id: each.id for each in rig.cloud.list_nodes(ZONE).items}
    rig.cloud.preempt(f"{ZONE}/nodes/q-1", 0)
    rig.tick()
    assert (state(rig), states(rig)["q-1"]) == ("ACTIVE", "PREEMPTED")
    rig.tick(0.3)
    assert states(rig) == {"q-0": "RESTARTING", "q-1": "CREATING", "q-2": "RESTARTING"}
    rig.restart()
    rig.live(2)
    assert (state(rig), set(states(rig).values())) == ("ACTIVE", {"READY"})
    after = {each.node_id: each.id for each in rig.cloud.list_nodes(ZONE).items}
    assert [name for name in before if before[name] != after[name]] == ["q-1"]


def test_what_ran_on_a_slice_that_is_made_anew_has_ended(rigged):
    rig = rigged(update_delay_s=60)
    file(rig, spec=asked(slices=2, **SPOT))
    rig.live(2)
    update = rig.cloud.update_node(f"{ZONE}/nodes/q-0", {"labels": {"a": "b"}})
    rig.cloud.preempt(f"{ZONE}/nodes/q-0", 0)
    rig.live(100)
    assert (states(rig)["q-0"], rig.outcome(update)) == ("READY", "ABORTED")


def test_what_ran_on_a_slice_has_ended_when_another_fails_them_all(rigged):
    rig = rigged(repair_delay_s=60)
    file(rig, spec=asked(slices=2))
    rig.tick(2)
    rig.cloud.mark_slice_booted(f"{ZONE}/nodes/q-0", [WORKER] * 4)
    maintenance = rig.cloud.simulate_maintenance_event(f"{ZONE}/nodes/q-0")
    rig.cloud.mark_slice_failed(f"{ZONE}/nodes/q-1", "no disk")
    rig.live(100)
    assert (state(rig), rig.outcome(maintenance)) == ("FAILED", "INTERNAL")


def test_a_repair_waits_for_capacity(rigged):
    rig = rigged(capacity={"us-west4-a": {"v5litepod-16": 2}})
    file(rig, spec=asked(slices=2, **SPOT))
    rig.live(2)
    rig.cloud.change_scenario({"capacity": {"us-west4-a": {"v5litepod-16": 1}}})
    rig.cloud.preempt(f"{ZONE}/nodes/q-0", 0)
    rig.live(60)
    assert states(rig) == {"q-0": "PREEMPTED", "q-1": "READY"}
    rig.cloud.change_scenario({"capacity": {"us-west4-a": {"v5litepod-16": 2}}})
    rig.live(60)
    assert (state(rig), set(states(rig).values())) == ("ACTIVE", {"READY"})


def test_a_user_who_deletes_a_slice_suspends_the_request(rig):
    file(rig, spec=asked(slices=2))
    rig.live(2)
    rig.cloud.delete_node(f"{ZONE}/nodes/q-0")
    rig.live(1)
    assert (state(rig), states(rig)) == ("SUSPENDED", {"q-1": "READY"})


def test_one_slice_that_cannot_boot_fails_all(rig):
    file(rig, spec=asked(slices=2))
    boots = {event.node.node_id for event in rig.tick(2)}
    rig.cloud.mark_slice_failed(f"{ZONE}/nodes/q-0", "no disk")
    rig.live(1)
    assert (boots, state(rig), states(rig)) == ({"q-0", "q-1"}, "FAILED", {})


def test_a_repair_that_loses_its_capacity_suspends_the_request(rig):
    file(rig, spec=asked(slices=2, **SPOT))
    rig.live(2)
    rig.cloud.preempt(f"{ZONE}/nodes/q-0", 0)
    rig.tick(0.5)
    assert states(rig)["q-0"] == "CREATING"
    rig.cloud.add_fault("capacity us-west4-a v5litepod-16: 1")
    rig.live(3)
    assert (state(rig), list(states(rig))) == ("SUSPENDED", ["q-1"])


def test_a_slice_that_is_lost_before_all_are_up_fails_the_request(rig):
    file(rig, spec=asked(slices=2, **SPOT))
    rig.tick(2)
    rig.cloud.mark_slice_booted(f"{ZONE}/nodes/q-0", [WORKER] * 4)
    rig.cloud.preempt(f"{ZONE}/nodes/q-0", 0)
    rig.tick()
    found = request(rig)
    assert (found.state, found.failure.code, states(rig)) == ("FAILED", Code.ABORTED, {})
