"""The simulated cloud's resources as fields of Google's messages, for all versions at once.

Plain values under the names of the proto files. A message takes those that its version has.
"""

from datetime import UTC, datetime
from typing import Any

from localsim.cloud.model.cloud_errors import Failure
from localsim.cloud.model.nodes import (
    AcceleratorConfig,
    Maintenance,
    Network,
    Node,
    NodeSpec,
    Symptom,
)
from localsim.cloud.model.operations import Operation
from localsim.cloud.model.queued_resources import (
    QueuedResource,
    QueuedResourceSpec,
    QueueingPolicy,
    RequestedNode,
    RequestState,
    Tier,
)
from localsim.cloud.supply.reservations import Reservation
from localsim.services.tpu.proto_messages import Fields

ENDPOINT_PORT = 8470
NANOS = 1_000_000_000


def node_fields(node: Node) -> Fields:
    """The fields of a Node."""
    return {
        **node_spec_fields(node.spec),
        "name": node.name,
        "id": node.id,
        "state": node.state,
        "health": node.health,
        "health_description": node.health_description,
        "symptoms": [_symptom(each) for each in node.symptoms],
        "create_time": timestamp(node.create_time_s),
        "queued_resource": node.queued_resource,
        "multislice_node": node.multislice,
        "network_endpoints": _endpoints(node),
        "upcoming_maintenance": node.maintenance and _maintenance(node.maintenance),
    }


def node_spec_fields(spec: NodeSpec) -> Fields:
    """The fields of a Node that a client asks for."""
    account, disk, scheduling = spec.service_account, spec.boot_disk, spec.scheduling
    return {
        "description": spec.description,
        "accelerator_type": spec.accelerator_type,
        "accelerator_config": spec.accelerator_config and config_fields(spec.accelerator_config),
        "runtime_version": spec.runtime_version,
        "cidr_block": spec.cidr_block,
        "labels": spec.labels,
        "metadata": spec.metadata,
        "tags": spec.tags,
        "network_config": spec.network and _network(spec.network),
        "network_configs": [_network(each) for each in spec.networks],
        "scheduling_config": {
            "preemptible": scheduling.preemptible,
            "reserved": scheduling.reserved,
            "spot": scheduling.spot,
            "provisioning_model": scheduling.provisioning_model or None,
            "reservation_name": scheduling.reservation_name,
            "termination_timestamp": _moment(scheduling.termination_time_s),
        },
        "service_account": account and {"email": account.email, "scope": account.scopes},
        "data_disks": [
            {"source_disk": each.source, "mode": each.mode, "worker_ids": each.worker_ids}
            for each in spec.data_disks
        ],
        "shielded_instance_config": {"enable_secure_boot": True}
        if spec.enable_secure_boot
        else None,
        "autocheckpoint_enabled": spec.autocheckpoint_enabled,
        "boot_disk_config": disk
        and {
            "customer_encryption_key": {"kms_key_name": disk.kms_key_name}
            if disk.kms_key_name
            else None,
            "enable_confidential_compute": disk.enable_confidential_compute,
        },
    }


def config_fields(config: AcceleratorConfig) -> Fields:
    """The fields of an AcceleratorConfig."""
    return {"type_": config.type, "topology": config.topology}


def queued_resource_fields(request: QueuedResource) -> Fields:
    """The fields of a QueuedResource."""
    spec = request.spec
    return {
        **_tier(spec),
        "name": request.name,
        "create_time": timestamp(request.create_time_s),
        "tpu": {"node_spec": [_requested(wanted) for wanted in spec.nodes]},
        "queueing_policy": spec.queueing and _queueing(spec.queueing),
        "reservation_name": spec.reservation_name,
        "state": _state(request),
        "provisioning_model": spec.provisioning_model or None,
        "run_duration": None
        if spec.max_run_duration_s is None
        else {"max_run_duration": duration(spec.max_run_duration_s)},
    }


def operation_fields(operation: Operation) -> Fields:
    """The fields of an OperationMetadata, but its version."""
    return {
        "create_time": timestamp(operation.create_time_s),
        "end_time": _moment(operation.end_time_s),
        "target": operation.target,
        "verb": operation.verb,
        "status_detail": operation.status_detail,
        "cancel_requested": operation.cancel_requested,
    }


def reservation_fields(reservation: Reservation) -> Fields:
    """The fields of a Reservation."""
    interval = {
        "start_time": timestamp(reservation.start_s),
        "end_time": timestamp(reservation.end_s),
    }
    return {
        "name": reservation.name,
        "state": reservation.state,
        "standard": {
            "size": reservation.size,
            "capacity_units": reservation.capacity_units,
            "resource_type": reservation.resource_type,
            "interval": interval,
            "usage": {"total": reservation.used},
        },
    }


def failure_fields(failure: Failure) -> Fields:
    """The fields of a google.rpc.Status."""
    return {"code": failure.code, "message": failure.message}


def timestamp(moment_s: float) -> Fields:
    """The fields of a Timestamp, to the microsecond."""
    seconds, nanos = divmod(round(moment_s * 1_000_000) * 1000, NANOS)
    return {"seconds": seconds, "nanos": nanos}


def duration(length_s: float) -> Fields:
    """The fields of a Duration, which is not negative."""
    seconds, nanos = divmod(round(length_s * NANOS), NANOS)
    return {"seconds": seconds, "nanos": nanos}


def _moment(moment_s: float | None) -> Fields | None:
    return None if moment_s is None else timestamp(moment_s)


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


def _symptom(symptom: Symptom) -> Fields:
    return {
        "create_time": timestamp(symptom.create_time_s),
        "symptom_type": symptom.symptom_type,
        "details": symptom.details,
        "worker_id": symptom.worker_id,
    }


def _maintenance(maintenance: Maintenance) -> Fields:
    return {
        "type_": maintenance.type,
        "can_reschedule": maintenance.can_reschedule,
        "window_start_time": _rfc3339(maintenance.window_start_s),
        "window_end_time": _rfc3339(maintenance.window_end_s),
        "latest_window_start_time": _rfc3339(maintenance.latest_window_start_s),
        "maintenance_status": maintenance.status,
    }


def _rfc3339(moment_s: float) -> str:
    """A time as Google writes it where a field is a string."""
    return datetime.fromtimestamp(int(moment_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _network(network: Network) -> Fields:
    return {
        "network": network.network,
        "subnetwork": network.subnetwork,
        "enable_external_ips": network.enable_external_ips,
        "can_ip_forward": network.can_ip_forward,
        "queue_count": network.queue_count,
    }


def _tier(spec: QueuedResourceSpec) -> Fields:
    if spec.tier == Tier.ON_DEMAND:
        return {}
    terms = {
        "min_duration": None if spec.min_duration_s is None else duration(spec.min_duration_s),
        "reserved": spec.reserved,
    }
    return {spec.tier: terms}


def _requested(wanted: RequestedNode) -> Fields:
    return {
        "parent": wanted.parent,
        "node_id": wanted.node_id,
        "node": node_spec_fields(wanted.spec),
    }


def _queueing(queueing: QueueingPolicy) -> Fields:
    after, until = _moment(queueing.after_s), _moment(queueing.until_s)
    if queueing.duration_s is not None:
        return {queueing.form: duration(queueing.duration_s)}
    if queueing.form == "valid_interval":
        return {queueing.form: {"start_time": after, "end_time": until}}
    return {queueing.form: after if queueing.form == "valid_after_time" else until}


def _state(request: QueuedResource) -> Fields:
    fields: dict[str, Any] = {"state": request.state, "state_initiator": request.initiator}
    if request.state != RequestState.WAITING_FOR_RESOURCES:  # the one state without data
        fields[f"{request.state.lower()}_data"] = {
            "error": request.failure and failure_fields(request.failure)
        }
    return fields
