"""Specifications as the fields of one version's messages."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tpuctl.api.tpu.versions import Version
from tpuctl.models.node import BootDisk, NodeSpec, Provisioning
from tpuctl.models.queued_resource import QueuedResourceSpec, Queueing


def node_fields(spec: NodeSpec) -> dict[str, Any]:
    """The fields of a Node message for CreateNode, which carries its tier itself."""
    fields = _node(spec)
    if spec.provisioning != Provisioning.ON_DEMAND:
        fields["scheduling_config"] = {
            "spot": spec.provisioning == Provisioning.SPOT,
            "reserved": spec.provisioning == Provisioning.RESERVED,
        }
    return fields


def request_fields(
    spec: QueuedResourceSpec, parent: str, version: Version, now_s: float
) -> dict[str, Any]:
    """The fields of a QueuedResource message; the tier is the request's, not the node's."""
    fields: dict[str, Any] = {
        "tpu": {
            "node_spec": [{"parent": parent, **_names(spec, version), "node": _node(spec.node)}]
        },
        **_tier(spec, parent, version),
    }
    policy = _queueing_policy(spec.queueing, now_s)
    return {**fields, "queueing_policy": policy} if policy else fields


def reservation_name(reservation: str, parent: str) -> str:
    """The full name of a reservation, which may be given already."""
    return reservation if "/" in reservation else f"{parent}/reservations/{reservation}"


def _names(spec: QueuedResourceSpec, version: Version) -> dict[str, Any]:
    if spec.node_count is None:
        return {"node_id": spec.node.name}
    several = {"node_count": spec.node_count, "node_id_prefix": spec.node.name}
    return {version.multislice: several}


def _tier(spec: QueuedResourceSpec, parent: str, version: Version) -> dict[str, Any]:
    tiers: Mapping[str, dict[str, Any]] = {
        Provisioning.SPOT: {"spot": {}},
        Provisioning.BEST_EFFORT: {"best_effort": {}},
        Provisioning.RESERVED: _reserved(spec, parent, version),
    }
    return tiers.get(spec.node.provisioning, {})


def _reserved(spec: QueuedResourceSpec, parent: str, version: Version) -> dict[str, Any]:
    if spec.node.reservation:
        return {
            "guaranteed": {},
            "reservation_name": reservation_name(spec.node.reservation, parent),
        }
    if version.has_reserved:
        return {"guaranteed": {"reserved": True}}
    return {"guaranteed": {}, "reservation_name": f"{parent}/reservations/-"}


def _queueing_policy(queueing: Queueing, now_s: float) -> dict[str, Any]:
    """One member of the policy's oneof; both ends together are an interval of moments."""
    both = queueing.interval(now_s)
    if both is not None:
        start, end = map(_moment, both)
        return {"valid_interval": {"start_time": start, "end_time": end}}
    ends = {
        "valid_after_duration": queueing.after_duration_s,
        "valid_until_duration": queueing.until_duration_s,
        "valid_after_time": queueing.after_s,
        "valid_until_time": queueing.until_s,
    }
    return {
        name: _moment(value) if name.endswith("time") else timedelta(seconds=value)
        for name, value in ends.items()
        if value is not None
    }


def _node(spec: NodeSpec) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "accelerator_type": spec.accelerator_type,
        "runtime_version": spec.runtime_version,
        "labels": dict(spec.labels),
        "metadata": dict(spec.metadata),
        "network_config": {
            "enable_external_ips": not spec.internal_ips,
            "network": spec.network or "",
            "subnetwork": spec.subnetwork or "",
        },
        "service_account": {"email": spec.service_account or "", "scope": list(spec.scopes)}
        if spec.service_account or spec.scopes
        else None,
        "tags": list(spec.tags),
        "data_disks": [{"source_disk": each.source, "mode": each.mode} for each in spec.data_disks],
        "boot_disk_config": _boot_disk(spec.boot_disk),
        "shielded_instance_config": {"enable_secure_boot": True}
        if spec.shielded_secure_boot
        else None,
        "description": spec.description,
        "autocheckpoint_enabled": spec.autocheckpoint,
    }
    return {name: value for name, value in fields.items() if value}


def _boot_disk(disk: BootDisk | None) -> dict[str, Any] | None:
    if disk is None:
        return None
    return {
        "customer_encryption_key": {"kms_key_name": disk.kms_key},
        "enable_confidential_compute": disk.confidential_compute,
    }


def _moment(epoch_s: float) -> datetime:
    return datetime.fromtimestamp(epoch_s, UTC)
