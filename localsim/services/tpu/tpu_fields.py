"""The simulated cloud's resources as fields of Google's messages, for all versions at once.

Plain values by attribute (message_fields.py); a message takes those that its version has.
"""

from datetime import UTC, datetime
from typing import Any

from localsim.cloud.model.nodes import Node, NodeSpec
from localsim.cloud.model.queued_resources import (
    QueuedResource,
    QueuedResourceSpec,
    QueueingPolicy,
    RequestedNode,
    RequestState,
    Tier,
)
from localsim.cloud.supply.reservations import Reservation
from localsim.services.tpu.message_fields import Fields, fields_of
from localsim.worker_facts import Maintenance

ENDPOINT_PORT = 8470


def node_fields(node: Node) -> Fields:
    """The fields of a Node."""
    return {
        **node_spec_fields(node.spec),
        **fields_of(node),
        "network_endpoints": _endpoints(node),
        "upcoming_maintenance": node.maintenance and _maintenance(node.maintenance),
    }


def node_spec_fields(spec: NodeSpec) -> Fields:
    """The fields of a Node that a client asks for."""
    disk = spec.boot_disk
    return {
        **fields_of(spec),
        "shielded_instance_config": {"enable_secure_boot": True}
        if spec.enable_secure_boot
        else None,
        "boot_disk_config": disk
        and {
            "customer_encryption_key": disk if disk.kms_key_name else None,
            "enable_confidential_compute": disk.enable_confidential_compute,
        },
    }


def queued_resource_fields(request: QueuedResource) -> Fields:
    """The fields of a QueuedResource."""
    spec = request.spec
    return {
        **_tier(spec),
        "name": request.name,
        "create_time_s": request.create_time_s,
        "tpu": {"node_spec": [_requested(wanted) for wanted in spec.nodes]},
        "queueing_policy": spec.queueing and _queueing(spec.queueing),
        "reservation_name": spec.reservation_name,
        "state": _state(request),
        "provisioning_model": spec.provisioning_model,
        "run_duration": None
        if spec.max_run_duration_s is None
        else {"max_run_duration_s": spec.max_run_duration_s},
    }


def reservation_fields(reservation: Reservation) -> Fields:
    """The fields of a Reservation."""
    return {
        **fields_of(reservation),
        "standard": {
            **fields_of(reservation),
            "interval": {"start_time_s": reservation.start_s, "end_time_s": reservation.end_s},
            "usage": {"total": reservation.used},
        },
    }


def _endpoints(node: Node) -> list[Fields]:
    outside = node.external_addresses or ("",) * len(node.addresses)
    return [
        {
            "ip_address": inside,
            "port": ENDPOINT_PORT,
            "access_config": {"external_ip": external} if external else None,
        }
        for inside, external in zip(node.addresses, outside, strict=True)
    ]


def _maintenance(maintenance: Maintenance) -> Fields:
    return {
        **fields_of(maintenance),
        "window_start_time": _rfc3339(maintenance.window_start_s),
        "window_end_time": _rfc3339(maintenance.window_end_s),
        "latest_window_start_time": _rfc3339(maintenance.latest_window_start_s),
        "maintenance_status": maintenance.status,
    }


def _rfc3339(moment_s: float) -> str:
    """A time as Google writes it where a field is a string."""
    return datetime.fromtimestamp(int(moment_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _tier(spec: QueuedResourceSpec) -> Fields:
    if spec.tier == Tier.ON_DEMAND:
        return {}
    return {spec.tier: {"min_duration_s": spec.min_duration_s, "reserved": spec.reserved}}


def _requested(wanted: RequestedNode) -> Fields:
    return {**fields_of(wanted), "node": node_spec_fields(wanted.spec)}


def _queueing(queueing: QueueingPolicy) -> Fields:
    after_s, until_s = queueing.after_s, queueing.until_s
    if queueing.duration_s is not None:
        return {f"{queueing.form}_s": queueing.duration_s}
    if queueing.form == "valid_interval":
        return {queueing.form: {"start_time_s": after_s, "end_time_s": until_s}}
    return {f"{queueing.form}_s": after_s if queueing.form == "valid_after_time" else until_s}


def _state(request: QueuedResource) -> Fields:
    fields: dict[str, Any] = {"state": request.state, "state_initiator": request.initiator}
    if request.state != RequestState.WAITING_FOR_RESOURCES:  # the one state without data
        fields[f"{request.state.lower()}_data"] = {"error": request.failure}
    return fields
