"""Messages of any API version, decoded into the simulated cloud's own types."""

from collections.abc import Mapping
from typing import Any

from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask

from localsim.rules.model.nodes import BootDisk, NodeSpec
from localsim.rules.model.queued_resources import (
    MultisliceParams,
    QueuedResourceSpec,
    QueueingPolicy,
    RequestedNode,
    Tier,
)
from localsim.services.tpu.message_fields import optional_seconds, read_message, seconds

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
    """The spec of a Node message; raises CloudError."""
    return read_message(
        NodeSpec,
        message,
        accelerator_type=message.accelerator_type.lower(),
        enable_secure_boot=message.shielded_instance_config.enable_secure_boot,
        boot_disk=_boot_disk(message),
        rest_only=_rest_only(message, _NODE_REST_ONLY),
    )


def queued_resource_spec(message: Any) -> QueuedResourceSpec:
    """The spec of a QueuedResource message; raises CloudError."""
    duration = getattr(message, "run_duration", None)
    return read_message(
        QueuedResourceSpec,
        message,
        nodes=tuple(_requested(spec) for spec in message.tpu.node_spec),
        tier=Tier(message.WhichOneof("tier") or ""),
        min_duration_s=optional_seconds(message.guaranteed, "min_duration"),
        queueing=_queueing(message),
        reserved=getattr(message.guaranteed, "reserved", False),
        max_run_duration_s=optional_seconds(duration, "max_run_duration"),
        rest_only=_rest_only(message, _REQUEST_REST_ONLY),
    )


def _requested(spec: Any) -> RequestedNode:
    return RequestedNode(spec.parent, spec.node_id, node_spec(spec.node), _multislice(spec))


def _multislice(spec: Any) -> MultisliceParams | None:
    """The multislice of v2's `multislice_params` or v2alpha1's `multi_node_params`."""
    for name in ("multislice_params", "multi_node_params"):
        if hasattr(spec, name) and spec.HasField(name):
            return read_message(MultisliceParams, getattr(spec, name))
    return None


def _queueing(message: Any) -> QueueingPolicy | None:
    """The queueing policy; the cloud works out the moment that a duration means."""
    policy = message.queueing_policy
    form = policy.WhichOneof("start_timing_constraints")
    if form is None:
        return None
    asked = getattr(policy, form)
    if form == "valid_interval":
        start_s = optional_seconds(asked, "start_time")
        return QueueingPolicy(form, after_s=start_s, until_s=optional_seconds(asked, "end_time"))
    if form.endswith("_duration"):
        return QueueingPolicy(form, duration_s=seconds(asked))
    if form == "valid_after_time":
        return QueueingPolicy(form, after_s=seconds(asked))
    return QueueingPolicy(form, until_s=seconds(asked))


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
