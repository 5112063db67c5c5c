"""Nodes, as Google's unmodified client sees them."""

import pytest
from google.api_core.exceptions import (
    Aborted,
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
)
from google.cloud import tpu_v2
from google.longrunning import operations_pb2

from client.tpu.tpu_service import START_S, ZONE, serving
from localsim.clock import Clock
from localsim.rules.scenario.scenario import Scenario

pytest_plugins = ("client.tpu.tpu_fixtures",)

State = tpu_v2.Node.State
NODE = f"{ZONE}/nodes/a"


def spec(**fields) -> tpu_v2.Node:
    wanted = {"accelerator_type": "v5litepod-16", "runtime_version": "v2-alpha-tpuv5-lite"}
    return tpu_v2.Node({**wanted, **fields})


def create(service, node_id="a", **fields) -> tpu_v2.Node:
    operation = service.client().create_node(parent=ZONE, node_id=node_id, node=spec(**fields))
    service.advance(2)
    return operation.result()


def settled(service, operation):
    service.advance(1)
    return operation.result()


def test_create_ends_when_the_node_is_ready(service, client):
    operation = client.create_node(
        parent=ZONE, node_id="a", node=spec(labels={"team": "vision"}, tags=["t"])
    )
    assert client.get_node(name=NODE).state == State.CREATING
    assert not operation.done()
    service.advance(2)
    node = operation.result()
    assert (node.name, node.state, node.health) == (NODE, State.READY, 0)
    assert [each.ip_address for each in node.network_endpoints] == [
        "10.128.0.2",
        "10.128.0.3",
        "10.128.0.4",
        "10.128.0.5",
    ]
    assert {each.port for each in node.network_endpoints} == {8470}
    assert (node.accelerator_config.type_.name, node.accelerator_config.topology) == (
        "V5LITE_POD",
        "4x4",
    )
    assert (dict(node.labels), list(node.tags)) == ({"team": "vision"}, ["t"])
    assert node.create_time.timestamp() == START_S
    assert node.id > 0
    assert node.api_version.name == "V2"
    node.health = tpu_v2.Node.Health.HEALTHY
    assert client.get_node(name=NODE) == node


def test_the_operation_tells_target_verb_and_times(service, client):
    operation = client.create_node(parent=ZONE, node_id="a", node=spec())
    service.advance(2)
    operation.result()
    metadata = operation.metadata
    assert (metadata.target, metadata.verb, metadata.api_version) == (NODE, "create", "v2")
    assert metadata.create_time.timestamp() == START_S
    assert metadata.end_time.timestamp() == START_S + 2
    assert operation.operation.name.startswith(f"{ZONE}/operations/operation-1800000000000-")


def test_type_and_topology_name_an_accelerator_type(service):
    config = {"type_": "V5LITE_POD", "topology": "2x2"}
    node = create(service, accelerator_type="", accelerator_config=config)
    assert (node.accelerator_type, len(node.network_endpoints)) == ("v5litepod-4", 1)


def test_lists_page_by_page_and_over_all_zones(service, client):
    for node_id in ("c", "a", "b"):
        client.create_node(parent=ZONE, node_id=node_id, node=spec())
    everywhere = "projects/demo/locations/-"
    request = tpu_v2.ListNodesRequest(parent=everywhere, page_size=2)
    pages = list(client.list_nodes(request).pages)
    assert [[node.name[-1] for node in page.nodes] for page in pages] == [["a", "b"], ["c"]]
    assert len(list(client.list_nodes(parent=ZONE))) == 3
    assert list(client.list_nodes(parent="projects/demo/locations/us-east5-b")) == []


def test_a_deleted_node_is_gone(service, client):
    create(service)
    operation = client.delete_node(name=NODE)
    assert client.get_node(name=NODE).state == State.DELETING
    assert settled(service, operation) is not None
    with pytest.raises(NotFound, match="nodes/a"):
        client.get_node(name=NODE)
    assert list(client.list_nodes(parent=ZONE)) == []


def test_a_node_of_one_worker_stops_and_starts(service, client):
    create(service, accelerator_type="v5litepod-4")
    stopped = settled(service, client.stop_node(tpu_v2.StopNodeRequest(name=NODE)))
    assert stopped.state == State.STOPPED
    assert client.get_node(name=NODE).health == tpu_v2.Node.Health.HEALTH_UNSPECIFIED
    started = settled(service, client.start_node(tpu_v2.StartNodeRequest(name=NODE)))
    assert started.state == State.READY


def test_a_slice_of_several_workers_cannot_stop(service, client):
    create(service)
    with pytest.raises(FailedPrecondition, match="more than one worker"):
        client.stop_node(tpu_v2.StopNodeRequest(name=NODE))
    with pytest.raises(FailedPrecondition, match="'start' of .* while in state READY"):
        client.start_node(tpu_v2.StartNodeRequest(name=NODE))


def test_update_replaces_the_masked_fields_only(service, client):
    create(service, description="old", labels={"a": "1"}, metadata={"k": "v"})
    operation = client.update_node(
        node=tpu_v2.Node(name=NODE, description="new", metadata={"ssh-keys": "u:key"}),
        update_mask={"paths": ["description", "metadata"]},
    )
    with pytest.raises(Aborted, match="is being changed by"):  # HTTP 409
        client.update_node(
            node=tpu_v2.Node(name=NODE, description="other"), update_mask={"paths": ["description"]}
        )
    node = settled(service, operation)
    assert (node.description, dict(node.metadata), dict(node.labels)) == (
        "new",
        {"ssh-keys": "u:key"},
        {"a": "1"},
    )


def test_update_of_a_node_that_is_not_ready_fails_inside_the_operation(service, client):
    create(service, scheduling_config={"spot": True})
    service.preempt(NODE)
    operation = client.update_node(
        node=tpu_v2.Node(name=NODE, description="x"), update_mask={"paths": ["description"]}
    )
    with pytest.raises(InvalidArgument, match=r"while in state PREEMPTED\. \[EID: 0x"):
        operation.result()


def test_a_preempted_node_stays_listed_until_it_is_deleted(service, client):
    create(service, scheduling_config={"spot": True})
    service.preempt(NODE)
    assert [node.state for node in client.list_nodes(parent=ZONE)] == [State.PREEMPTED]
    settled(service, client.delete_node(name=NODE))
    assert list(client.list_nodes(parent=ZONE)) == []


def test_guest_attributes_of_all_workers_or_of_one(service, client):
    create(service)

    def ask(**fields):
        reply = client.get_guest_attributes(tpu_v2.GetGuestAttributesRequest(name=NODE, **fields))
        return [
            [(item.namespace, item.key, item.value) for item in each.query_value.items]
            for each in reply.guest_attributes
        ]

    assert ask(worker_ids=["2"]) == [
        [
            ("guest-attributes", "hostname", "t1v-n-a-w-2"),
            ("hostkeys", "ssh-ed25519", "KEY2"),
        ]
    ]
    assert len(ask()) == len(ask(worker_ids=[""])) == 4
    assert ask(worker_ids=["0"], query_path="hostkeys/") == [[("hostkeys", "ssh-ed25519", "KEY0")]]
    with pytest.raises(InvalidArgument, match="has no worker '9'"):
        ask(worker_ids=["9"])


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"accelerator_type": "v5litepod-17"}, "v5litepod-17"),
        ({"accelerator_type": "v4-8"}, "zone 'us-west4-a'"),
        ({"runtime_version": "nope"}, "runtime version 'nope'"),
        ({"accelerator_type": ""}, "Exactly one of"),
        ({"labels": {"Bad Key": "x"}}, "Invalid label"),
        ({"description": "x" * 513}, "512"),
    ],
)
def test_what_cannot_be_asked_for_is_an_invalid_argument(client, fields, cause):
    with pytest.raises(InvalidArgument, match=rf"{cause}.*\[EID: 0x[0-9a-f]{{16}}\]"):
        client.create_node(parent=ZONE, node_id="a", node=spec(**fields))
    assert list(client.list_nodes(parent=ZONE)) == []


@pytest.mark.parametrize("node_id", ["", "..", "../x", "a b", "a/b", "x" * 256])
def test_a_bad_node_id_is_an_invalid_argument(client, node_id):
    with pytest.raises(InvalidArgument, match="Invalid node id"):
        client.create_node(parent=ZONE, node_id=node_id, node=spec())


def test_other_refusals_have_googles_codes(service, client):
    create(service)
    with pytest.raises(AlreadyExists, match="nodes/a"):
        client.create_node(parent=ZONE, node_id="a", node=spec())
    with pytest.raises(NotFound, match="nodes/nope"):
        client.delete_node(name=f"{ZONE}/nodes/nope")
    with pytest.raises(InvalidArgument, match="zone 'mars-1a' is not supported"):
        client.list_nodes(parent="projects/demo/locations/mars-1a")
    with pytest.raises(PermissionDenied, match="project other"):
        client.list_nodes(parent="projects/other/locations/-")
    with pytest.raises(InvalidArgument, match="page token"):
        client.list_nodes(tpu_v2.ListNodesRequest(parent=ZONE, page_token="%%%"))
    with pytest.raises(InvalidArgument, match="page size"):
        client.list_nodes(tpu_v2.ListNodesRequest(parent=ZONE, page_size=-1))


def test_absent_methods_are_named(service):
    call = service.channel.unary_unary("/google.cloud.tpu.v1.Tpu/ReimageNode")
    with pytest.raises(Exception, match="Method ReimageNode is not emulated"):
        call(b"")


def test_a_malformed_request_is_an_invalid_argument(service):
    call = service.channel.unary_unary("/google.cloud.tpu.v2.Tpu/GetNode")
    with pytest.raises(Exception, match="INVALID_ARGUMENT"):
        call(b"\xff\xff\xff")


def test_a_stock_out_arrives_inside_the_operation(tmp_path):
    scenario = Scenario(capacity={"us-west4-a": {"v5litepod-16": 1}})
    clock = Clock(manual_start_s=START_S)
    with serving(tmp_path / "s", clock=clock, scenario=scenario) as service:
        create(service)
        client = service.client()
        operation = client.create_node(parent=ZONE, node_id="b", node=spec())
        service.advance(2)
        with pytest.raises(ResourceExhausted, match="no more capacity in the zone"):
            operation.result()
        assert [node.name for node in client.list_nodes(parent=ZONE)] == [NODE]


def test_operations_can_be_listed_deleted_and_asked_to_stop(service, client):
    operation = client.create_node(parent=ZONE, node_id="a", node=spec()).operation
    client.cancel_operation(operations_pb2.CancelOperationRequest(name=operation.name))
    listed = client.list_operations(operations_pb2.ListOperationsRequest(name=ZONE))
    assert [each.name for each in listed.operations] == [operation.name]
    service.advance(2)
    assert client.get_operation(operations_pb2.GetOperationRequest(name=operation.name)).done
    client.delete_operation(operations_pb2.DeleteOperationRequest(name=operation.name))
    with pytest.raises(NotFound):
        client.get_operation(operations_pb2.GetOperationRequest(name=operation.name))


def test_what_a_zone_offers(client):
    types = list(client.list_accelerator_types(parent=ZONE))
    assert f"{ZONE}/acceleratorTypes/v5litepod-16" in [each.name for each in types]
    one = client.get_accelerator_type(name=f"{ZONE}/acceleratorTypes/v5litepod-16")
    assert [each.topology for each in one.accelerator_configs] == ["4x4"]
    versions = [each.version for each in client.list_runtime_versions(parent=ZONE)]
    assert "v2-alpha-tpuv5-lite" in versions
    name = f"{ZONE}/runtimeVersions/v2-alpha-tpuv5-lite"
    assert client.get_runtime_version(name=name).version == "v2-alpha-tpuv5-lite"
    with pytest.raises(NotFound):
        client.get_runtime_version(name=f"{ZONE}/runtimeVersions/nope")
    with pytest.raises(NotFound):
        client.get_accelerator_type(name=f"{ZONE}/acceleratorTypes/v4-8")


def test_locations(client):
    listed = client.list_locations({"name": "projects/demo"})
    assert "us-west4-a" in [each.location_id for each in listed.locations]
    assert client.get_location({"name": ZONE}).location_id == "us-west4-a"
