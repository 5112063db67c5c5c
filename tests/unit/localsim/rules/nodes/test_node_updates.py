"""UpdateNode: an operation that takes time, one at a time, on READY nodes only."""

import pytest

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.model.events import ShowMetadata
from localsim.rules.model.nodes import DataDisk, Network, NodeSpec, NodeState, Scheduling
from localsim.rules.nodes.node_update import UPDATABLE, masked_fields
from unit.localsim.rules.cloud_rig import NODE, SINGLE, SPOT, ZONE

pytest_plugins = ("unit.localsim.rules.cloud_fixtures",)

EXTERNAL = "network_config.enable_external_ips"
DISK = DataDisk("projects/demo/zones/us-west4-a/disks/data", "READ_ONLY")


def test_an_update_takes_time_and_its_result_is_the_node(rigged):
    rig = rigged(update_delay_s=3.0)
    rig.ready()
    operation = rig.cloud.update_node(NODE, {"description": "new", "tags": ("t",)})
    assert (rig.outcome(operation), rig.node().spec.description) == (None, "")
    rig.tick(2.9)
    rig.restart()
    assert rig.outcome(operation) is None
    rig.tick(0.1)
    ended = rig.cloud.get_operation(operation.name)
    assert (ended.node.spec.description, ended.node.spec.tags) == ("new", ("t",))
    assert (ended.verb, ended.end_time_s - ended.create_time_s) == ("update", 3.0)


def test_a_second_update_is_a_conflict_until_the_first_has_ended(rig):
    rig.ready(spec=SINGLE)
    rig.cloud.update_node(NODE, {"labels": {"a": "1"}})
    for second in (
        lambda: rig.cloud.update_node(NODE, {"labels": {"b": "2"}}),
        lambda: rig.cloud.stop_node(NODE),
        lambda: rig.cloud.simulate_maintenance_event(NODE),
    ):
        with pytest.raises(CloudError, match="is being changed by") as refusal:
            second()
        assert refusal.value.code == Code.ABORTED
    rig.tick(1)
    rig.cloud.update_node(NODE, {"labels": {"b": "2"}})
    rig.tick(1)
    assert rig.node().spec.labels == {"b": "2"}


def test_a_node_that_is_preempted_during_an_update_keeps_what_it_had(rig):
    rig.ready()
    operation = rig.cloud.update_node(NODE, {"metadata": {"k": "v"}})
    rig.cloud.preempt(NODE, 0)
    assert not any(isinstance(event, ShowMetadata) for event in rig.tick(1))
    failure = rig.cloud.get_operation(operation.name).failure
    assert failure.code == Code.INVALID_ARGUMENT
    assert "is not supported while in state PREEMPTED. [EID: 0x" in failure.message
    assert (rig.state(), rig.node().metadata) == (NodeState.PREEMPTED, {})


def test_deleting_a_node_ends_its_update(rig):
    rig.ready()
    operation = rig.cloud.update_node(NODE, {"description": "x"})
    rig.cloud.delete_node(NODE)
    assert rig.outcome(operation) == "CANCELLED"
    rig.tick(1)
    assert rig.cloud.next_due_s() is None


@pytest.mark.parametrize("state", ["CREATING", "STOPPING", "STOPPED", "STARTING", "DELETING"])
def test_other_states_fail_the_operation_not_the_call(rig, state):
    if state == "CREATING":
        rig.cloud.create_node(ZONE, "a", SINGLE)
    else:
        rig.ready(spec=SINGLE)
    if state.startswith("ST"):
        rig.cloud.stop_node(NODE)
    if state in ("STOPPED", "STARTING"):
        rig.cloud.mark_slice_stopped(NODE)
    if state == "STARTING":
        rig.cloud.start_node(NODE)
    if state == "DELETING":
        rig.cloud.delete_node(NODE)
    assert rig.state() == state
    operation = rig.cloud.update_node(NODE, {"labels": {"a": "1"}})
    assert rig.outcome(operation) == "INVALID_ARGUMENT"
    failure = rig.cloud.get_operation(operation.name).failure
    assert f"is not supported while in state {state}." in failure.message


def test_disks_are_attached_and_detached(rig):
    rig.ready(spec=SPOT)
    rig.cloud.update_node(NODE, {"data_disks": (DISK,)})
    rig.tick(1)
    assert rig.node().spec.data_disks == (DISK,)
    rig.cloud.update_node(NODE, {"data_disks": ()})
    rig.tick(1)
    assert rig.node().spec.data_disks == ()


def test_external_addresses_come_and_go(rig):
    rig.ready()
    rig.cloud.update_node(NODE, {EXTERNAL: True})
    assert [type(event) for event in rig.tick(1)] == [ShowMetadata]
    assert rig.node().external_addresses == tuple(f"198.18.0.{n}" for n in range(1, 5))
    rig.cloud.update_node(NODE, {EXTERNAL: False})
    rig.tick(1)
    assert rig.node().external_addresses == ()


def test_a_node_of_several_networks_keeps_its_kind_of_addresses(rig):
    rig.ready(spec=NodeSpec("v5litepod-4", "v2-alpha-tpuv5-lite", networks=(Network("n"),)))
    with pytest.raises(CloudError, match="cannot be updated of 'network_configs'"):
        rig.cloud.update_node(NODE, {EXTERNAL: True})
    rig.cloud.update_node(NODE, masked_fields(SINGLE, ["*"]))
    rig.tick(1)
    assert [each.network.rpartition("/")[2] for each in rig.node().spec.networks] == ["n"]


def test_external_addresses_beyond_the_quota_fail_the_operation(rigged):
    rig = rigged(quota={"IN_USE_ADDRESSES": 3})
    rig.ready()
    operation = rig.cloud.update_node(NODE, {EXTERNAL: True})
    rig.tick(1)
    failure = rig.cloud.get_operation(operation.name).failure
    assert failure.code == Code.RESOURCE_EXHAUSTED
    assert "IN_USE_ADDRESSES" in failure.message
    assert (rig.state(), rig.node().external_addresses) == ("READY", ())
    rig.cloud.update_node(NODE, {"description": "the node is free again"})


def test_external_addresses_of_a_new_node_last_until_it_is_lost(rig):
    wanted = NodeSpec(
        "v5litepod-16",
        "v2-alpha-tpuv5-lite",
        scheduling=Scheduling(spot=True),
        network=Network(enable_external_ips=True),
    )
    assert len(rig.ready(spec=wanted).external_addresses) == 4
    other = rig.ready("b", wanted)
    assert not set(rig.node().external_addresses) & set(other.external_addresses)
    rig.cloud.preempt(NODE, 0)
    rig.tick()
    assert rig.node().external_addresses == ()


def test_the_external_addresses_of_a_stopped_node_are_others_when_it_starts(rig):
    network = Network(enable_external_ips=True)
    (before,) = rig.ready(
        spec=NodeSpec("v5litepod-4", "v2-alpha-tpuv5-lite", networks=(network,))
    ).external_addresses
    rig.cloud.stop_node(NODE)
    rig.cloud.mark_slice_stopped(NODE)
    assert rig.node().external_addresses == ()
    rig.cloud.start_node(NODE)
    (after,) = rig.node().external_addresses
    assert after != before


def test_a_mask_names_fields_of_the_node_that_came_with_it():
    sent = NodeSpec(
        "", "", description="d", labels={"a": "1"}, network=Network("n", enable_external_ips=True)
    )
    assert masked_fields(sent, ["description", EXTERNAL]) == {"description": "d", EXTERNAL: True}
    assert masked_fields(sent, ["description", "description"]) == {"description": "d"}
    assert set(masked_fields(sent, ["*"])) == set(UPDATABLE)


@pytest.mark.parametrize(
    "path", ["state", "runtime_version", "labels.a", "network_config", "", "x"]
)
def test_a_mask_of_anything_else_is_an_invalid_argument(path):
    with pytest.raises(CloudError, match="cannot be updated") as refusal:
        masked_fields(SINGLE, ["labels", path])
    assert refusal.value.code == Code.INVALID_ARGUMENT


def test_an_empty_mask_is_an_invalid_argument(rig):
    rig.ready()
    with pytest.raises(CloudError, match="'update_mask' must be set"):
        masked_fields(SINGLE, [])
    with pytest.raises(CloudError, match="'update_mask' must be set"):
        rig.cloud.update_node(NODE, {})


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"description": "x" * 513}, "512"),
        ({"labels": {"UP": ""}}, "Invalid label 'UP'"),
        ({"tags": ("-",)}, "Invalid tag '-'"),
        ({"metadata": {"a b": ""}}, "Invalid metadata key 'a b'"),
        ({"data_disks": (DataDisk("d", "READ_ONLY"),)}, "Invalid source disk 'd'"),
        ({"data_disks": (DISK, DISK)}, "only once"),
    ],
)
def test_new_values_are_checked_as_at_creation(rig, changes, cause):
    rig.ready()
    with pytest.raises(CloudError, match=cause) as refusal:
        rig.cloud.update_node(NODE, changes)
    assert refusal.value.code == Code.INVALID_ARGUMENT
    assert rig.node().update is None
