"""Messages of any API version, decoded into the simulated cloud's own types."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask

from localsim.cloud.model.cloud_errors import CloudError, invalid
from localsim.cloud.model.nodes import (
    AcceleratorConfig,
    BootDisk,
    DataDisk,
    Network,
    NodeSpec,
    Scheduling,
    ServiceAccount,
)
from localsim.cloud.model.queued_resources import (
    MultisliceParams,
    QueuedResourceSpec,
    QueueingPolicy,
    RequestedNode,
    Tier,
)
from localsim.cloud.nodes import node_update
from localsim.services.tpu.proto_messages import NANOS

_NODE_REST_ONLY = (
    "boot_disk_config.disk_size_gb",
    "boot_disk_config.source_image",
    "boot_disk_config.storage_pool",
    "boot_disk_config.provisioned_iops",
    "boot_disk_config.provisioned_throughput",
    "confidential_instance_config",
)
_REQUEST_REST_ONLY = ("traffic_config", "run_duration.termination_time")
"""What the cloud keeps as it is and does not act on; gRPC's messages do not have it."""


def node_spec(message: Any) -> NodeSpec:
    """The spec of a Node message."""
    return NodeSpec(
        accelerator_type=message.accelerator_type.lower(),
        accelerator_config=_accelerator_config(message),
        runtime_version=message.runtime_version,
        description=message.description,
        cidr_block=message.cidr_block,
        labels=dict(message.labels),
        metadata=dict(message.metadata),
        tags=tuple(message.tags),
        scheduling=_scheduling(message.scheduling_config),
        network=_network(message.network_config) if message.HasField("network_config") else None,
        networks=tuple(_network(each) for each in message.network_configs),
        service_account=_service_account(message),
        data_disks=_data_disks(message),
        enable_secure_boot=message.shielded_instance_config.enable_secure_boot,
        autocheckpoint_enabled=getattr(message, "autocheckpoint_enabled", False),
        boot_disk=_boot_disk(message),
        rest_only=_rest_only(message, _NODE_REST_ONLY),
    )


def queued_resource_spec(message: Any) -> QueuedResourceSpec:
    """The spec of a QueuedResource message."""
    guaranteed = message.guaranteed
    return QueuedResourceSpec(
        nodes=tuple(_requested(spec) for spec in message.tpu.node_spec),
        tier=Tier(message.WhichOneof("tier") or ""),
        min_duration_s=_optional_s(guaranteed, "min_duration"),
        reservation_name=message.reservation_name,
        queueing=_queueing(message),
        reserved=getattr(guaranteed, "reserved", False),
        provisioning_model=_optional_name(message, "provisioning_model"),
        max_run_duration_s=_optional_s(message.run_duration, "max_run_duration")
        if hasattr(message, "run_duration")
        else None,
        rest_only=_rest_only(message, _REQUEST_REST_ONLY),
    )


def node_changes(message: Any, mask: Any) -> Mapping[str, Any]:
    """The fields of a Node message that an update mask names."""
    return node_update.masked_fields(node_spec(message), mask.paths)


def _requested(spec: Any) -> RequestedNode:
    return RequestedNode(spec.parent, spec.node_id, node_spec(spec.node), _multislice(spec))


def _multislice(spec: Any) -> MultisliceParams | None:
    """The multislice of v2's `multislice_params` or v2alpha1's `multi_node_params`."""
    for name in ("multislice_params", "multi_node_params"):
        if hasattr(spec, name) and spec.HasField(name):
            asked = getattr(spec, name)
            kind = _optional_name(asked, "workload_type")
            return MultisliceParams(asked.node_count, asked.node_id_prefix, kind)
    return None


def _queueing(message: Any) -> QueueingPolicy | None:
    """The queueing policy; the cloud works out the moment that a duration means."""
    policy = message.queueing_policy
    form = policy.WhichOneof("start_timing_constraints")
    if form is None:
        return None
    asked = getattr(policy, form)
    if form == "valid_interval":
        start_s = _optional_s(asked, "start_time")
        return QueueingPolicy(form, after_s=start_s, until_s=_optional_s(asked, "end_time"))
    seconds = _seconds(asked)
    if form.endswith("_duration"):
        return QueueingPolicy(form, duration_s=seconds)
    if form == "valid_after_time":
        return QueueingPolicy(form, after_s=seconds)
    return QueueingPolicy(form, until_s=seconds)


def _accelerator_config(message: Any) -> AcceleratorConfig | None:
    if not message.HasField("accelerator_config"):
        return None
    config = message.accelerator_config
    return AcceleratorConfig(_enum_name(config, "type_"), config.topology)


def _scheduling(message: Any) -> Scheduling:
    return Scheduling(
        preemptible=message.preemptible,
        reserved=message.reserved,
        spot=message.spot,
        provisioning_model=_optional_name(message, "provisioning_model"),
        reservation_name=getattr(message, "reservation_name", ""),
        termination_time_s=_optional_s(message, "termination_timestamp"),
    )


def _network(message: Any) -> Network:
    return Network(**{field.name: getattr(message, field.name) for field in fields(Network)})


def _service_account(message: Any) -> ServiceAccount | None:
    if not message.HasField("service_account"):
        return None
    return ServiceAccount(message.service_account.email, tuple(message.service_account.scope))


def _data_disks(message: Any) -> tuple[DataDisk, ...]:
    return tuple(
        DataDisk(disk.source_disk, _enum_name(disk, "mode"), tuple(getattr(disk, "worker_ids", ())))
        for disk in message.data_disks
    )


def _boot_disk(message: Any) -> BootDisk | None:
    if not (hasattr(message, "boot_disk_config") and message.HasField("boot_disk_config")):
        return None
    disk = message.boot_disk_config
    return BootDisk(disk.customer_encryption_key.kms_key_name, disk.enable_confidential_compute)


def _rest_only(message: Any, paths: tuple[str, ...]) -> Mapping[str, Any]:
    if paths[-1].partition(".")[0] not in message.DESCRIPTOR.fields_by_name:  # of gRPC
        return {}
    kept = type(message)()
    FieldMask(paths=paths).MergeMessage(message, kept)
    document: Mapping[str, Any] = json_format.MessageToDict(kept)
    return document


def _optional_name(message: Any, field: str) -> str:
    """The name of an enum's value; none when it is unspecified or the version lacks the field."""
    return _enum_name(message, field) if getattr(message, field, 0) else ""


def _enum_name(message: Any, field: str) -> str:
    """The name of an enum's value; raises CloudError for a number that has none."""
    number = getattr(message, field)
    kind = message.DESCRIPTOR.fields_by_name[field].enum_type
    value = kind.values_by_number.get(number)
    if value is None:
        raise _invalid_value(field.rstrip("_"), kind.full_name, number)
    return str(value.name)


def _optional_s(message: Any, field: str) -> float | None:
    """Seconds of a timestamp or duration; None when it is unset or the version lacks the field."""
    if not (hasattr(message, field) and message.HasField(field)):
        return None
    return _seconds(getattr(message, field))


def _seconds(message: Any) -> float:
    """The seconds of a Timestamp or Duration; raises CloudError outside of the allowed range."""
    try:
        message.ToJsonString()
    except ValueError:
        name = message.DESCRIPTOR.full_name
        raise _invalid_value("value", name, f"{message.seconds} s {message.nanos} ns") from None
    return float(message.seconds + message.nanos / NANOS)


def _invalid_value(field: str, kind: str, value: Any) -> CloudError:
    return invalid(f"Invalid value at '{field}' (type.googleapis.com/{kind}), {value}")
