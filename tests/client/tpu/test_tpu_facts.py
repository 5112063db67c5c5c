"""What is most easily got wrong about the API, through every client that Google has for it."""

from concurrent.futures import TimeoutError as GaveUpError

import pytest
from google.api_core.exceptions import GoogleAPICallError, NotFound
from google.cloud import tpu

from client.tpu.examples import (
    NODE,
    ONE_WORKER,
    REQUEST,
    filing,
    make_active,
    node,
    node_request,
    node_state,
    state_of,
)
from client.tpu.tpu_service import ZONE
from client.workers.doors import V2, V2ALPHA1

pytest_plugins = ("client.tpu.tpu_fixtures",)

EVERYWHERE = "projects/demo/locations/-"
OTHER_ZONE = "projects/demo/locations/us-east5-b"
LITEPOD = "TPUV5sLitepodPerProjectPerZoneForTPUAPI"
SERVING = "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI"
HOUR_S = 3600.0


def test_the_package_without_a_version_is_the_legacy_client(service):
    assert tpu.TpuClient.__module__.startswith("google.cloud.tpu_v1.")
    call = service.channel.unary_unary("/google.cloud.tpu.v1.Tpu/ListNodes")
    with pytest.raises(Exception, match="UNIMPLEMENTED"):
        call(b"")


@pytest.mark.parametrize(
    ("message", "field", "v2", "v2alpha1"),
    [
        ("Node", "queued_resource", 47, 43),
        ("Node", "accelerator_config", 46, 44),
        ("Node", "multislice_node", 48, 47),
        ("Node", "network_configs", 49, 50),
        ("QueuedResource", "spot", 3, 9),
        ("QueuedResource", "reservation_name", 7, 8),
    ],
)
def test_the_versions_number_the_same_fields_differently(message, field, v2, v2alpha1):
    numbers = [
        getattr(types, message).pb().DESCRIPTOR.fields_by_name[field].number
        for _, types, _ in (V2, V2ALPHA1)
    ]
    assert numbers == [v2, v2alpha1]


@pytest.mark.parametrize("maker", ["v2-grpc", "v2-rest", "v2alpha1-grpc", "v2alpha1-rest"])
def test_what_one_version_has_made_every_version_reads(door, maker, open_doors, service):
    first = open_doors[maker]
    wanted = filing(spot={})
    wanted["queued_resource"]["tpu"]["node_spec"][0]["node"] = node(
        network_configs=[{"network": "a"}, {"network": "b"}]
    )
    first.call("CreateQueuedResource", wanted)
    service.advance(5)
    read = door.call("GetNode", {"name": NODE})
    assert (read.queued_resource, read.accelerator_config.topology) == (REQUEST, "4x4")
    networks = [each.network.rpartition("/")[2] for each in read.network_configs]
    assert networks == ["a", "b"]
    assert (read.multislice_node, read.scheduling_config.spot) == (False, True)
    request = door.call("GetQueuedResource", {"name": REQUEST})
    assert "spot" in request
    assert request.tpu.node_spec[0].node.runtime_version == "v2-alpha-tpuv5-lite"


def test_an_operation_goes_on_when_its_client_gives_up(service, open_doors):
    door = open_doors["v2-grpc"]
    operation = door.call("CreateNode", node_request())
    with pytest.raises(GaveUpError):
        door.result(operation, timeout=0.05)
    service.advance(5)
    assert node_state(door) == "READY"


def test_a_filed_request_is_not_an_active_one(door, service):
    service.behave(capacity={"us-west4-a": {"v5litepod-16": 0}})
    assert door.result(door.call("CreateQueuedResource", filing())).name == REQUEST
    service.advance(24 * HOUR_S)
    found = door.call("GetQueuedResource", {"name": REQUEST}).state
    assert (found.state.name, found.state_initiator.name) == ("WAITING_FOR_RESOURCES", "SERVICE")
    assert type(found).pb(found).WhichOneof("state_data") is None  # the one state without
    with pytest.raises(NotFound):
        door.call("GetNode", {"name": NODE})


@pytest.mark.parametrize(
    ("zone", "kind", "version", "workers", "topology"),
    [
        ("us-east5-a", "v5p-8", "v2-alpha-tpuv5", 1, "2x2x1"),
        ("us-east5-b", "v6e-8", "v2-alpha-tpuv6e", 1, "2x4"),
        ("us-west4-a", "v5litepod-8", "v2-alpha-tpuv5-lite", 1, "2x4"),
        ("us-west4-a", "v5litepod-16", "v2-alpha-tpuv5-lite", 4, "4x4"),
        ("us-west4-a", "v5litepod-64", "v2-alpha-tpuv5-lite", 16, "8x8"),
        ("us-central2-b", "v4-32", "tpu-ubuntu2204-base", 4, "2x2x4"),
    ],
)
def test_the_suffix_counts_cores_or_chips(client, service, zone, kind, version, workers, topology):
    parent = f"projects/demo/locations/{zone}"
    wanted = {"accelerator_type": kind, "runtime_version": version}
    operation = client.create_node(parent=parent, node_id="a", node=wanted)
    service.advance(5)
    made = operation.result()
    assert len(made.network_endpoints) == workers
    assert made.accelerator_config.topology == topology


def test_what_is_lost_holds_quota_until_it_is_deleted(door, service):
    spot = "TPUV5sPreemptibleLitepodPerProjectPerZoneForTPUAPI"
    service.behave(quota={spot: 16})
    make_active(door, service, spot={})
    service.preempt(NODE)
    service.advance(HOUR_S)
    assert (node_state(door), state_of(door)) == ("PREEMPTED", ("SUSPENDED", "SERVICE"))
    another = node_request("b", scheduling_config={"spot": True})
    with pytest.raises(GoogleAPICallError, match=spot):
        door.call("CreateNode", another)
    door.call("DeleteQueuedResource", {"name": REQUEST, "force": True})
    service.advance(5)
    door.call("CreateNode", another)
    service.advance(5)
    assert node_state(door, f"{ZONE}/nodes/b") == "READY"


def test_a_request_without_its_node_is_suspended_by_the_user(door, service):
    make_active(door, service)
    door.call("DeleteNode", {"name": NODE})
    service.advance(HOUR_S)
    assert state_of(door) == ("SUSPENDED", "USER")
    door.call("DeleteQueuedResource", {"name": REQUEST})
    service.advance(5)
    with pytest.raises(NotFound):
        door.call("GetQueuedResource", {"name": REQUEST})


def test_quota_counts_cores_of_v5p_and_chips_of_v5e(client, service):
    service.behave(quota={LITEPOD: 16, SERVING: 4, "TPUV5PPerProjectPerZoneForTPUAPI": 8})
    zone = "projects/demo/locations/us-east5-a"
    v5p = {"accelerator_type": "v5p-8", "runtime_version": "v2-alpha-tpuv5"}
    client.create_node(parent=zone, node_id="cores", node=v5p)
    client.create_node(parent=ZONE, node_id="chips", node=node())
    client.create_node(parent=ZONE, node_id="serving", node=node(ONE_WORKER))
    for parent, wanted, quota in (
        (zone, v5p, "TPUV5PPerProjectPerZoneForTPUAPI"),
        (ZONE, node(), LITEPOD),
        (ZONE, node(ONE_WORKER), SERVING),
    ):
        with pytest.raises(GoogleAPICallError, match=quota):
            client.create_node(parent=parent, node_id="more", node=wanted)


def test_tpu7x_is_out_of_reach(client):
    kinds = [each.type_ for each in client.list_accelerator_types(parent=EVERYWHERE)]
    assert [kind for kind in kinds if kind.startswith("tpu7")] == []


def test_numbers_that_are_no_state_stay_free():
    for _, types, _ in (V2, V2ALPHA1):
        assert 7 not in {int(state) for state in types.Node.State}
        assert 2 not in {int(health) for health in types.Node.Health}
