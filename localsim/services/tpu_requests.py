"""What clients send, as the simulated cloud's own words: messages of any API version in."""

from collections.abc import Callable, Mapping
from typing import Any

from localsim.cloud.errors import absent, invalid
from localsim.cloud.nodes import (
    AcceleratorConfig,
    DataDisk,
    Network,
    NodeSpec,
    Scheduling,
    ServiceAccount,
)
from localsim.cloud.queued_resources import QueuedResourceSpec, RequestedNode, Tier


def node_spec(message: Any) -> NodeSpec:
    """A Node message that asks for a node."""
    scheduling = message.scheduling_config
    return NodeSpec(
        accelerator_type=message.accelerator_type.lower(),
        accelerator_config=_accelerator_config(message),
        runtime_version=message.runtime_version,
        description=message.description,
        cidr_block=message.cidr_block,
        labels=dict(message.labels),
        metadata=dict(message.metadata),
        tags=tuple(message.tags),
        scheduling=Scheduling(scheduling.preemptible, scheduling.reserved, scheduling.spot),
        network=_network(message.network_config) if message.HasField("network_config") else None,
        networks=tuple(_network(each) for each in message.network_configs),
        service_account=_service_account(message),
        data_disks=tuple(_data_disk(each) for each in message.data_disks),
        enable_secure_boot=message.shielded_instance_config.enable_secure_boot,
    )


def queued_resource_spec(message: Any) -> QueuedResourceSpec:
    """A QueuedResource message that asks for nodes."""
    if message.HasField("queueing_policy"):
        raise absent("queueing_policy of a queued resource")
    guaranteed = message.guaranteed
    return QueuedResourceSpec(
        nodes=tuple(_requested(spec) for spec in message.tpu.node_spec),
        tier=Tier(message.WhichOneof("tier") or ""),
        min_duration_s=guaranteed.min_duration.ToTimedelta().total_seconds()
        if guaranteed.HasField("min_duration")
        else None,
        reservation_name=message.reservation_name,
    )


def node_changes(message: Any, mask: Any) -> Mapping[str, Any]:
    """The fields of a Node message that an update mask names."""
    return {path: _CHANGES.get(path, _not_updatable(path))(message) for path in mask.paths}


_CHANGES: Mapping[str, Callable[[Any], Any]] = {
    "description": lambda message: message.description,
    "labels": lambda message: dict(message.labels),
    "metadata": lambda message: dict(message.metadata),
    "tags": lambda message: tuple(message.tags),
}
_ABSENT_CHANGES = frozenset({"data_disks", "network_config.enable_external_ips"})


def _not_updatable(path: str) -> Callable[[Any], Any]:
    def refuse(_message: Any) -> Any:
        if path in _ABSENT_CHANGES:
            raise absent(f"UpdateNode of {path}")
        raise invalid(f"The field '{path}' cannot be updated.")

    return refuse


def _requested(spec: Any) -> RequestedNode:
    if spec.HasField("multislice_params"):
        raise absent("multislice_params of a queued resource")
    return RequestedNode(spec.parent, spec.node_id, node_spec(spec.node))


def _accelerator_config(message: Any) -> AcceleratorConfig | None:
    if not message.HasField("accelerator_config"):
        return None
    config = message.accelerator_config
    value = config.DESCRIPTOR.fields_by_number[1].enum_type.values_by_number.get(config.type_)
    return AcceleratorConfig(value.name if value else str(config.type_), config.topology)


def _network(message: Any) -> Network:
    return Network(
        network=message.network,
        subnetwork=message.subnetwork,
        enable_external_ips=message.enable_external_ips,
        can_ip_forward=message.can_ip_forward,
        queue_count=message.queue_count,
    )


def _service_account(message: Any) -> ServiceAccount | None:
    if not message.HasField("service_account"):
        return None
    return ServiceAccount(message.service_account.email, tuple(message.service_account.scope))


def _data_disk(message: Any) -> DataDisk:
    modes = message.DESCRIPTOR.fields_by_name["mode"].enum_type.values_by_number
    return DataDisk(message.source_disk, modes[message.mode].name)
