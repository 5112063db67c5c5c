"""One example for every method of the API, through every client that Google has for it."""

from collections.abc import Callable

import pytest
from google.api_core.exceptions import NotFound

from client.tpu.examples import (
    NODE,
    ONE_WORKER,
    REQUEST,
    filing,
    make_active,
    make_node,
    node_request,
    node_state,
    state_of,
)
from client.tpu.tpu_service import START_S, ZONE, Service
from client.tpu.wire.method_names import METHODS, OVER_REST, SERVED
from client.workers.doors import NAMES, Door, metadata_of, snake

pytest_plugins = ("client.tpu.tpu_fixtures",)

DAY_S = 24 * 3600
Example = Callable[[Door, Service], None]


def list_nodes(door, service):
    make_node(door, service, "b")
    make_node(door, service, "a")
    answer = door.call("ListNodes", {"parent": ZONE})
    assert [node.name for node in answer.nodes] == [f"{ZONE}/nodes/a", f"{ZONE}/nodes/b"]
    assert (answer.next_page_token, list(answer.unreachable)) == ("", [])


def get_node(door, service):
    made = make_node(door, service)
    found = door.call("GetNode", {"name": NODE})
    assert found.health.name == "HEALTHY"
    made.health = found.health  # of which the operation did not speak yet
    assert found == made


def create_node(door, service):
    operation = door.call("CreateNode", node_request(labels={"team": "vision"}))
    assert node_state(door) == "CREATING"
    service.advance(5)
    node = door.result(operation)
    assert (node.name, node.state.name, node.health) == (NODE, "READY", 0)
    assert [end.port for end in node.network_endpoints] == [8470] * 4
    assert (dict(node.labels), node.accelerator_config.topology) == ({"team": "vision"}, "4x4")
    assert node.api_version.name == {"v2": "V2", "v2alpha1": "V2_ALPHA1"}[door.version]
    metadata = metadata_of(operation.operation)
    assert (metadata.target, metadata.verb) == (NODE, "create")
    assert metadata.api_version == door.version
    assert metadata.create_time.timestamp() == START_S


def delete_node(door, service):
    make_node(door, service)
    operation = door.call("DeleteNode", {"name": NODE})
    assert node_state(door) == "DELETING"
    service.advance(5)
    door.result(operation)
    with pytest.raises(NotFound, match="nodes/a"):
        door.call("GetNode", {"name": NODE})


def stop_node(door, service):
    make_node(door, service, kind=ONE_WORKER)
    operation = door.call("StopNode", {"name": NODE})
    service.advance(60)
    assert door.result(operation).state.name == "STOPPED"


def start_node(door, service):
    make_node(door, service, kind=ONE_WORKER)
    door.call("StopNode", {"name": NODE})
    service.advance(60)
    operation = door.call("StartNode", {"name": NODE})
    service.advance(60)
    assert door.result(operation).state.name == "READY"


def update_node(door, service):
    make_node(door, service, description="old", labels={"a": "1"})
    changed = {"name": NODE, "description": "new", "metadata": {"k": "v"}}
    operation = door.call(
        "UpdateNode", {"node": changed, "update_mask": {"paths": ["description", "metadata"]}}
    )
    service.advance(5)
    node = door.result(operation)
    assert (node.description, dict(node.metadata)) == ("new", {"k": "v"})
    assert dict(node.labels) == {"a": "1"}


def get_guest_attributes(door, service):
    make_node(door, service)
    answer = door.call(
        "GetGuestAttributes", {"name": NODE, "query_path": "hostkeys/", "worker_ids": ["2"]}
    )
    (worker,) = answer.guest_attributes
    found = [(item.namespace, item.key, item.value) for item in worker.query_value.items]
    assert found == [("hostkeys", "ssh-ed25519", "KEY2")]


def list_queued_resources(door, service):
    door.call("CreateQueuedResource", filing())
    answer = door.call("ListQueuedResources", {"parent": ZONE})
    assert [found.name for found in answer.queued_resources] == [REQUEST]
    assert (answer.next_page_token, list(answer.unreachable)) == ("", [])


def get_queued_resource(door, service):
    door.call("CreateQueuedResource", filing(spot={}))
    found = door.call("GetQueuedResource", {"name": REQUEST})
    (spec,) = found.tpu.node_spec
    assert (spec.parent, spec.node_id) == (ZONE, "a")
    assert spec.node.accelerator_type == "v5litepod-16"
    assert "spot" in found
    assert found.create_time.timestamp() == START_S


def create_queued_resource(door, service):
    operation = door.call("CreateQueuedResource", filing())
    assert door.result(operation).name == REQUEST
    assert state_of(door)[0] != "ACTIVE"
    service.advance(5)
    assert state_of(door) == ("ACTIVE", "SERVICE")
    made = door.call("GetNode", {"name": NODE})
    assert (made.state.name, made.queued_resource) == ("READY", REQUEST)


def delete_queued_resource(door, service):
    make_active(door, service)
    operation = door.call("DeleteQueuedResource", {"name": REQUEST, "force": True})
    assert state_of(door) == ("DELETING", "USER")
    service.advance(5)
    if door.version == "v2alpha1" and door.transport != "rest":
        with pytest.raises(TypeError):  # its client was made for another answer than Google's
            door.result(operation)
    else:
        door.result(operation)
    for method, name in (("GetQueuedResource", REQUEST), ("GetNode", NODE)):
        with pytest.raises(NotFound):
            door.call(method, {"name": name})


def reset_queued_resource(door, service):
    make_active(door, service)
    before = door.call("GetNode", {"name": NODE}).id
    operation = door.call("ResetQueuedResource", {"name": REQUEST})
    service.advance(60)
    assert door.result(operation).name == REQUEST
    assert state_of(door)[0] == "ACTIVE"
    after = door.call("GetNode", {"name": NODE})
    assert (after.state.name, after.queued_resource) == ("READY", REQUEST)
    assert after.id != before


def generate_service_identity(door, service):
    answer = door.call("GenerateServiceIdentity", {"parent": ZONE})
    assert answer.identity.email == "service-7@cloud-tpu.iam.gserviceaccount.com"


def list_accelerator_types(door, service):
    answer = door.call("ListAcceleratorTypes", {"parent": ZONE, "page_size": 500})
    found = {each.type_: each for each in answer.accelerator_types}
    assert found["v5litepod-16"].name == f"{ZONE}/acceleratorTypes/v5litepod-16"
    assert found["v5litepod-16"].accelerator_configs[0].topology == "4x4"


def get_accelerator_type(door, service):
    found = door.call("GetAcceleratorType", {"name": f"{ZONE}/acceleratorTypes/v5litepod-16"})
    (config,) = found.accelerator_configs
    assert (config.type_.name, config.topology) == ("V5LITE_POD", "4x4")


def list_runtime_versions(door, service):
    answer = door.call("ListRuntimeVersions", {"parent": ZONE, "page_size": 500})
    assert "v2-alpha-tpuv5-lite" in [each.version for each in answer.runtime_versions]


def get_runtime_version(door, service):
    name = f"{ZONE}/runtimeVersions/v2-alpha-tpuv5-lite"
    assert door.call("GetRuntimeVersion", {"name": name}).version == "v2-alpha-tpuv5-lite"


ANNOUNCED = {"nodes": "a", "after_s": 10, "notice_s": 7 * DAY_S}


def perform_maintenance(door, service):
    service.behave(maintenance=[ANNOUNCED])
    make_node(door, service)
    service.advance(60)
    announced = door.call("GetNode", {"name": NODE}).upcoming_maintenance
    assert (announced.can_reschedule, announced.maintenance_status.name) == (True, "PENDING")
    operation = door.call("PerformMaintenance", {"name": NODE})
    service.advance(DAY_S)
    assert door.result(operation).name == NODE
    after = door.call("GetNode", {"name": NODE})
    assert (after.state.name, "upcoming_maintenance" in after) == ("READY", False)


def perform_maintenance_queued_resource(door, service):
    service.behave(maintenance=[ANNOUNCED])
    make_active(door, service)
    service.advance(60)
    operation = door.call(
        "PerformMaintenanceQueuedResource", {"name": REQUEST, "node_names": [NODE]}
    )
    service.advance(DAY_S)
    assert door.result(operation).name == REQUEST
    assert node_state(door) == "READY"
    assert state_of(door)[0] == "ACTIVE"


def simulate_maintenance_event(door, service):
    make_node(door, service)
    operation = door.call("SimulateMaintenanceEvent", {"name": NODE, "worker_ids": ["1"]})
    assert door.call("GetNode", {"name": NODE}).health.name == "UNHEALTHY_MAINTENANCE"
    service.advance(DAY_S)
    assert door.result(operation).name == NODE
    after = door.call("GetNode", {"name": NODE})
    assert (after.state.name, after.health.name) == ("READY", "HEALTHY")


def list_reservations(door, service):
    reserved = {"zone": "us-west4-a", "accelerator_type": "v5litepod-16", "slices": 2}
    service.behave(reservations=[{"name": "r", **reserved}])
    (found,) = door.call("ListReservations", {"parent": ZONE}).reservations
    assert found.name == f"{ZONE}/reservations/r"
    assert (found.state.name, found.standard.size) == ("ACTIVE", 32)
    assert found.standard.capacity_units.name == "CHIPS"


def list_operations(door, service):
    made = door.call("CreateNode", node_request())
    answer = door.call("ListOperations", {"name": ZONE})
    assert [each.name for each in answer.operations] == [made.operation.name]


def get_operation(door, service):
    name = door.call("CreateNode", node_request()).operation.name
    assert not door.call("GetOperation", {"name": name}).done
    service.advance(5)
    found = door.call("GetOperation", {"name": name})
    assert found.done
    assert found.response.type_url.endswith(f"/google.cloud.tpu.{door.version}.Node")


def cancel_operation(door, service):
    name = door.call("CreateNode", node_request()).operation.name
    door.call("CancelOperation", {"name": name})
    assert metadata_of(door.call("GetOperation", {"name": name})).cancel_requested


def delete_operation(door, service):
    name = door.call("CreateNode", node_request()).operation.name
    service.advance(5)
    door.call("DeleteOperation", {"name": name})
    with pytest.raises(NotFound, match=name):
        door.call("GetOperation", {"name": name})


def list_locations(door, service):
    answer = door.call("ListLocations", {"name": "projects/demo"})
    assert "us-west4-a" in [each.location_id for each in answer.locations]


def get_location(door, service):
    found = door.call("GetLocation", {"name": ZONE})
    assert (found.name, found.location_id) == (ZONE, "us-west4-a")


def example(method: str) -> Example:
    found: Example = globals()[snake(method)]
    return found


@pytest.mark.parametrize(
    ("door", "method"),
    [(name, method) for name in NAMES for method in METHODS[name.partition("-")[0]]],
    indirect=["door"],
)
def test_a_method_does_what_its_name_says(door, service, method):
    example(method)(door, service)


@pytest.mark.parametrize("version", METHODS)
def test_the_table_has_every_method_of_googles_client_and_no_other(version):
    assert SERVED[version] == METHODS[version]
    assert OVER_REST[version] == METHODS[version]
