"""Google's messages, of either version, as tpuctl's models."""

from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.message import DecodeError

from tpuctl.api.tpu.messages import tpu, types_of
from tpuctl.models.capacity.capacity_event import Reservation
from tpuctl.models.limits.slice_lifetime import LIFETIME_LABELS
from tpuctl.models.node import (
    BootDisk,
    DataDisk,
    ListedNode,
    Maintenance,
    Node,
    Provisioning,
    Symptom,
    Worker,
)
from tpuctl.models.operation import Operation, Status
from tpuctl.models.queued_resource import QueuedResource

# The numbers of these enums are the same in both versions.
_NODE_STATES = {state.value: state.name for state in tpu.Node.State}
_HEALTH = {health.value: health.name for health in tpu.Node.Health}
_SYMPTOMS = {symptom.value: symptom.name for symptom in tpu.Symptom.SymptomType}
_MODES = {mode.value: mode.name for mode in tpu.AttachedDisk.DiskMode}
_QR_STATES = {state.value: state.name for state in tpu.QueuedResourceState.State}
_SPOT, _RESERVED = Provisioning.SPOT, Provisioning.RESERVED  # a look-up in an enum is not free
_NO_LABELS: Mapping[str, str] = {}
_ON_DEMAND = Provisioning.ON_DEMAND
_RESERVATION_STATE = 3
"""The number of Reservation.state."""
_CAPACITY_UNITS = {1: "TensorCores", 2: "chips"}
"""Reservation.Standard.CapacityUnits, as quotas count."""
_INITIATORS = {who.value: who.name for who in tpu.QueuedResourceState.StateInitiator}


def listed_nodes(messages: Any) -> Iterator[ListedNode]:
    """Node messages as a list shows them; of a thousand, this is most of what a list costs."""
    states = _NODE_STATES
    for message in messages:
        _, _, _, zone, _, name = message.name.split("/")
        state, owner = message.state, message.queued_resource
        yield ListedNode(
            name,
            zone,
            _last(message.accelerator_type),
            states.get(state) or str(state),
            len(message.network_endpoints),
            _scheduling(message.scheduling_config),
            message.create_time.seconds,
            _last(owner) if owner else None,
            _lifetime_labels(message.labels),
        )


def _lifetime_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    if not labels:
        return _NO_LABELS
    return {name: labels[name] for name in LIFETIME_LABELS if name in labels}


def node(message: Any) -> Node:
    """The node that a Node message describes."""
    zone, name = zone_and_id(message.name)
    return _node(message, zone, name)


def requested_node(message: Any) -> Node:
    """A node as the request that a QueuedResource message describes asks for it."""
    zone, name = zone_and_id(message.name)
    return _node(message.tpu.node_spec[0].node, zone, name)


def _node(message: Any, zone: str, name: str) -> Node:
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
        health_description=message.health_description,
        symptoms=tuple(map(_symptom, message.symptoms)),
        network=message.network_config.network,
        subnetwork=message.network_config.subnetwork,
        internal_ips=not message.network_config.enable_external_ips,
        service_account=message.service_account.email,
        scopes=tuple(message.service_account.scope),
        tags=tuple(message.tags),
        data_disks=tuple(_disk(each) for each in message.data_disks),
        shielded_secure_boot=message.shielded_instance_config.enable_secure_boot,
        is_multislice=message.multislice_node,
        **_only_v2alpha1(message),
    )


def queued_resource(message: Any) -> QueuedResource:
    """The request that a QueuedResource message describes."""
    zone, name = zone_and_id(message.name)
    specs = message.tpu.node_spec
    first = specs[0].node if specs else None
    failure = message.state.failed_data.error
    after_s, until_s = _window(message.queueing_policy, message.create_time.seconds)
    return QueuedResource(
        name=name,
        zone=zone,
        state=_QR_STATES.get(message.state.state, str(message.state.state)),
        initiator=_INITIATORS.get(message.state.state_initiator, ""),
        node_names=tuple(found for spec in specs for found in _node_names(spec, name)),
        accelerator_type=_last(first.accelerator_type) if first else "",
        runtime_version=first.runtime_version if first else "",
        provisioning=_tier(message),
        created_s=message.create_time.seconds,
        failure=failure.message or None,
        failure_code=failure.code,
        reservation=message.reservation_name,
        valid_after_s=after_s,
        valid_until_s=until_s,
        labels=dict(first.labels) if first else {},
    )


def reservation(message: Any) -> Reservation:
    """The reservation that a Reservation message of v2alpha1 describes."""
    zone, name = zone_and_id(message.name)
    standard = message.standard
    return Reservation(
        name=name,
        zone=zone,
        generation=standard.resource_type,
        state=_enum(message, _RESERVATION_STATE),
        size=standard.size,
        used=standard.usage.total,
        unit=_CAPACITY_UNITS.get(standard.capacity_units, str(standard.capacity_units)),
    )


def operation(message: Any) -> Operation:
    """The operation that a google.longrunning.Operation describes."""
    failed = message.WhichOneof("result") == "error"
    error = Status(message.error.code, message.error.message) if failed else None
    told = _operation_metadata(message.metadata.value)
    return Operation(
        message.name,
        message.done,
        error,
        told.target,
        told.verb,
        _moment_s(told, "create_time"),
        _moment_s(told, "end_time"),
        _changed_node(message.response),
    )


def _operation_metadata(data: bytes) -> Any:
    """What an operation says of itself: each class that Google packs there has the same fields."""
    kind = tpu.OperationMetadata.pb()
    try:
        return kind.FromString(data)
    except DecodeError:
        return kind()


def _moment_s(message: Any, name: str) -> float | None:
    """A timestamp of a message in seconds since 1970; None where it has none."""
    if not message.HasField(name):
        return None
    moment = getattr(message, name)
    return float(moment.seconds + moment.nanos / 1e9)


def _changed_node(response: Any) -> Node | None:
    """The node that an operation has changed, in the class of the version that it names."""
    package, _, kind = response.type_url.rpartition(".")
    version = package.rpartition(".")[2]
    if kind != "Node" or version not in ("v2", "v2alpha1"):
        return None
    try:
        return node(types_of(version).Node.pb().FromString(response.value))
    except (DecodeError, ValueError, IndexError):
        return None


def guest_attributes(message: Any) -> list[Mapping[str, str]]:
    """The guest attributes of each worker, in order: `namespace/key` to value."""
    return [
        {f"{item.namespace}/{item.key}": item.value for item in attributes.query_value.items}
        for attributes in message.guest_attributes
    ]


def host_key(attributes: Any) -> str:
    """The ssh-ed25519 host key among one worker's guest attributes, or an empty string."""
    items = attributes.query_value.items
    return next((f"{i.key} {i.value}" for i in items if i.key == "ssh-ed25519"), "")


def _only_v2alpha1(message: Any) -> dict[str, Any]:
    if "upcoming_maintenance" not in message.DESCRIPTOR.fields_by_name:
        return {}
    announced = message.HasField("upcoming_maintenance")
    return {
        "autocheckpoint": message.autocheckpoint_enabled,
        "maintenance": _maintenance(message.upcoming_maintenance) if announced else None,
        "boot_disk": _boot_disk(message.boot_disk_config),
    }


def _boot_disk(message: Any) -> BootDisk | None:
    """How boot disks are encrypted; None for Google's own way, however the message says it."""
    key = message.customer_encryption_key.kms_key_name
    found = BootDisk(key, message.enable_confidential_compute)
    return None if found == BootDisk() else found


def _maintenance(message: Any) -> Maintenance:
    return Maintenance(
        kind=_enum(message, 1),
        status=_enum(message, 9),
        can_reschedule=message.can_reschedule,
        window_start=message.window_start_time,
        window_end=message.window_end_time,
        latest_window_start=message.latest_window_start_time,
    )


def _enum(message: Any, number: int) -> str:
    """The name of an enum's value, by the number of its field; an unknown one as it came."""
    field = message.DESCRIPTOR.fields_by_number[number]
    value = getattr(message, field.name)
    known = field.enum_type.values_by_number.get(value)
    return known.name if known else str(value)


def _symptom(message: Any) -> Symptom:
    return Symptom(
        kind=_SYMPTOMS.get(message.symptom_type, str(message.symptom_type)),
        details=message.details,
        worker_id=message.worker_id,
        created_s=message.create_time.seconds,
    )


def _disk(message: Any) -> DataDisk:
    return DataDisk(message.source_disk, _MODES.get(message.mode, str(message.mode)))


def _worker(worker_id: int, endpoint: Any) -> Worker:
    return Worker(worker_id, endpoint.ip_address, endpoint.access_config.external_ip or None)


def _scheduling(config: Any) -> str:
    if config.spot or config.preemptible:
        return _SPOT
    return _RESERVED if config.reserved else _ON_DEMAND


def _tier(message: Any) -> str:
    tier = message.WhichOneof("tier")
    if tier == "best_effort":
        return Provisioning.BEST_EFFORT
    if tier == "spot":
        return Provisioning.SPOT
    is_reserved = message.reservation_name or getattr(message.guaranteed, "reserved", False)
    if is_reserved:
        return Provisioning.RESERVED
    # Google's sample CreateSpotQueuedResource says it on the node alone.
    asks = any(spec.node.scheduling_config.preemptible for spec in message.tpu.node_spec)
    return Provisioning.SPOT if asks else Provisioning.ON_DEMAND


def _node_names(spec: Any, request: str) -> Iterator[str]:
    """The nodes of one spec: the service names those of a multislice only when it makes them."""
    if spec.node_id:
        yield spec.node_id
        return
    is_v2 = "multislice_params" in spec.DESCRIPTOR.fields_by_name
    several = spec.multislice_params if is_v2 else spec.multi_node_params
    prefix = several.node_id_prefix or request
    yield from (f"{prefix}-{index}" for index in range(several.node_count))


def _window(policy: Any, created_s: float) -> tuple[float | None, float | None]:
    """From when and until when, in seconds since the epoch; durations count from the creation."""
    form = policy.WhichOneof("start_timing_constraints")
    if form is None:
        return None, None
    if form == "valid_interval":
        interval = policy.valid_interval
        return interval.start_time.seconds, interval.end_time.seconds
    moment = getattr(policy, form).seconds + (created_s if form.endswith("_duration") else 0)
    return (moment, None) if form.startswith("valid_after") else (None, moment)


def zone_and_id(path: str) -> tuple[str, str]:
    """The zone and the last part of a resource's full name."""
    parts = path.split("/")
    return parts[3], parts[-1]


def _last(path: str) -> str:
    return path[path.rfind("/") + 1 :]
