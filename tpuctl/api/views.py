"""Google's messages as tpuctl's models, and back."""

from typing import Any

from tpuctl.api.errors import operation_error
from tpuctl.api.messages import tpu
from tpuctl.models.node import Node, NodeSpec, Provisioning, Worker
from tpuctl.models.operation import Operation
from tpuctl.models.queued_resource import QueuedResource, QueuedResourceSpec

_NODE_STATES = {state.value: state.name for state in tpu.Node.State}
_HEALTH = {health.value: health.name for health in tpu.Node.Health}
_QR_STATES = {state.value: state.name for state in tpu.QueuedResourceState.State}
_INITIATORS = {who.value: who.name for who in tpu.QueuedResourceState.StateInitiator}


def node(message: Any) -> Node:
    """A Node message."""
    zone, name = _zone_and_id(message.name)
    return Node(
        name=name,
        zone=zone,
        node_id=message.id,
        accelerator_type=_last(message.accelerator_type),
        runtime_version=message.runtime_version,
        state=_NODE_STATES.get(message.state, str(message.state)),
        provisioning=_scheduling(message.scheduling_config),
        created_s=message.create_time.seconds,
        health=_HEALTH.get(message.health, str(message.health)) if message.health else "",
        description=message.description,
        queued_resource=_last(message.queued_resource) or None,
        workers=tuple(_worker(i, e) for i, e in enumerate(message.network_endpoints)),
        labels=dict(message.labels),
        metadata=dict(message.metadata),
    )


def node_message(spec: NodeSpec) -> dict[str, Any]:
    """The fields of a Node message for CreateNode."""
    fields = _node_fields(spec)
    if spec.provisioning != Provisioning.ON_DEMAND:
        fields["scheduling_config"] = {
            "spot": spec.provisioning == Provisioning.SPOT,
            "reserved": spec.provisioning == Provisioning.RESERVED,
        }
    return fields


def queued_resource(message: Any) -> QueuedResource:
    """A QueuedResource message."""
    zone, name = _zone_and_id(message.name)
    specs = message.tpu.node_spec
    first = specs[0].node if specs else None
    failure = message.state.failed_data.error.message
    return QueuedResource(
        name=name,
        zone=zone,
        state=_QR_STATES.get(message.state.state, str(message.state.state)),
        initiator=_INITIATORS.get(message.state.state_initiator, ""),
        node_names=tuple(spec.node_id for spec in specs if spec.node_id),
        accelerator_type=_last(first.accelerator_type) if first else "",
        runtime_version=first.runtime_version if first else "",
        provisioning=_tier(message),
        created_s=message.create_time.seconds,
        failure=failure or None,
    )


def queued_resource_message(spec: QueuedResourceSpec, parent: str) -> dict[str, Any]:
    """The fields of a QueuedResource message; the tier is the request's, not the node's."""
    fields: dict[str, Any] = {
        "tpu": {
            "node_spec": [
                {"parent": parent, "node_id": spec.node.name, "node": _node_fields(spec.node)}
            ]
        }
    }
    if spec.node.provisioning == Provisioning.SPOT:
        fields["spot"] = {}
    if spec.node.provisioning == Provisioning.RESERVED:
        fields["guaranteed"] = {}
        fields["reservation_name"] = f"{parent}/reservations/-"
    return fields


def operation(message: Any) -> Operation:
    """A google.longrunning.Operation."""
    failed = message.WhichOneof("result") == "error"
    error = operation_error(message.error.code, message.error.message) if failed else None
    return Operation(message.name, message.done, error)


def host_key(attributes: Any) -> str:
    """The ssh-ed25519 host key among one worker's guest attributes, or an empty string."""
    items = attributes.query_value.items
    return next((f"{i.key} {i.value}" for i in items if i.key == "ssh-ed25519"), "")


def _node_fields(spec: NodeSpec) -> dict[str, Any]:
    network = {
        "enable_external_ips": not spec.internal_ips,
        **({"network": spec.network} if spec.network else {}),
        **({"subnetwork": spec.subnetwork} if spec.subnetwork else {}),
    }
    fields: dict[str, Any] = {
        "accelerator_type": spec.accelerator_type,
        "runtime_version": spec.runtime_version,
        "labels": dict(spec.labels),
        "metadata": dict(spec.metadata),
        "network_config": network,
    }
    if spec.service_account:
        fields["service_account"] = {"email": spec.service_account}
    return fields


def _worker(worker_id: int, endpoint: Any) -> Worker:
    return Worker(worker_id, endpoint.ip_address, endpoint.access_config.external_ip or None)


def _scheduling(config: Any) -> str:
    if config.spot or config.preemptible:
        return Provisioning.SPOT
    return Provisioning.RESERVED if config.reserved else Provisioning.ON_DEMAND


def _tier(message: Any) -> str:
    if message.HasField("spot"):
        return Provisioning.SPOT
    return Provisioning.RESERVED if message.reservation_name else Provisioning.ON_DEMAND


def _zone_and_id(path: str) -> tuple[str, str]:
    parts = path.split("/")
    return parts[3], parts[-1]


def _last(path: str) -> str:
    return path.rpartition("/")[2]
