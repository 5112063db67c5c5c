"""What the examples of the API ask for, in the spelling of either version."""

from typing import Any

from client.tpu.tpu_service import ZONE, Service
from client.workers.doors import Door

NODE = f"{ZONE}/nodes/a"
REQUEST = f"{ZONE}/queuedResources/q"
ONE_WORKER, FOUR_WORKERS = "v5litepod-4", "v5litepod-16"


def node(kind: str = FOUR_WORKERS, **fields: Any) -> dict[str, Any]:
    return {"accelerator_type": kind, "runtime_version": "v2-alpha-tpuv5-lite", **fields}


def node_request(node_id: str = "a", kind: str = FOUR_WORKERS, **fields: Any) -> dict[str, Any]:
    return {"parent": ZONE, "node_id": node_id, "node": node(kind, **fields)}


def filing(
    request_id: str = "q", node_id: str = "a", kind: str = FOUR_WORKERS, **fields: Any
) -> dict[str, Any]:
    """A CreateQueuedResourceRequest for one node."""
    spec = {"parent": ZONE, "node_id": node_id, "node": node(kind)}
    return {
        "parent": ZONE,
        "queued_resource_id": request_id,
        "queued_resource": {"tpu": {"node_spec": [spec]}, **fields},
    }


def slices(door: Door, node_count: int, prefix: str = "") -> dict[str, Any]:
    """A CreateQueuedResourceRequest for several nodes: each version has its own field for it."""
    field = {"v2": "multislice_params", "v2alpha1": "multi_node_params"}[door.version]
    params = {"node_count": node_count, "node_id_prefix": prefix}
    wanted = filing()
    spec = {"parent": ZONE, "node": node(), field: params}
    return {**wanted, "queued_resource": {"tpu": {"node_spec": [spec]}}}


def make_node(door: Door, service: Service, node_id: str = "a", **fields: Any) -> Any:
    operation = door.call("CreateNode", node_request(node_id, **fields))
    service.advance(5)
    return door.result(operation)


def make_active(door: Door, service: Service, **fields: Any) -> Any:
    door.call("CreateQueuedResource", filing(**fields))
    service.advance(5)
    found = door.call("GetQueuedResource", {"name": REQUEST})
    assert found.state.state.name == "ACTIVE"
    return found


def state_of(door: Door, name: str = REQUEST) -> tuple[str, str]:
    """State and initiator of a queued resource."""
    found = door.call("GetQueuedResource", {"name": name}).state
    return found.state.name, found.state_initiator.name


def node_state(door: Door, name: str = NODE) -> str:
    return door.call("GetNode", {"name": name}).state.name
