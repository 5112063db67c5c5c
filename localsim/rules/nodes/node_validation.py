"""The checks of a node's spec, which complete it; refusals are in Google's codes and manner.

Sources: the field documentation of google.cloud.tpu.v2 (description, cidr_block, network_config,
data_disks), Compute Engine's rules for labels, metadata keys and network tags.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from ipaddress import IPv4Network

from localsim.rules.model.cloud_errors import CloudError, invalid
from localsim.rules.model.nodes import AcceleratorConfig, DataDisk, Network, NodeSpec, Scheduling
from localsim.rules.model.resource_names import last_part, zone_of
from tpuctl import catalog

MAX_DESCRIPTION = 512
MAX_LABELS = 64
MAX_TAGS = 64
MAX_DATA_DISKS = 127  # Compute Engine attaches 128 disks to a machine; one is for booting
MAX_METADATA_BYTES = 512 * 1024
MAX_METADATA_VALUE_BYTES = 256 * 1024
LONGEST_CIDR_PREFIX = 29
_PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))

_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_METADATA_KEY = re.compile(r"[a-zA-Z0-9_-]{1,127}")
_TAG = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_PROJECT = r"projects/[a-z0-9.:-]+"
_RESOURCE = r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?"
_URL = r"(https://(www|compute)\.googleapis\.com/compute/[a-z0-9]+/)?"
_NETWORK = re.compile(rf"({_URL}{_PROJECT}/)?(global/networks/)?{_RESOURCE}")
_SUBNETWORK = re.compile(rf"({_URL}{_PROJECT}/)?(regions/[a-z0-9-]+/subnetworks/)?{_RESOURCE}")
_DISK = re.compile(rf"{_URL}{_PROJECT}/(zones|regions)/(?P<place>[a-z0-9-]+)/disks/{_RESOURCE}")
_KMS_KEY = re.compile(
    rf"{_PROJECT}/locations/[\w-]+/keyRings/[\w-]+/cryptoKeys/[\w-]+(/cryptoKeyVersions/\d+)?"
)
_EMAIL = re.compile(r"default|\d+|[^@\s]+@[^@\s.]+(\.[^@\s.]+)+")
_SCOPE = re.compile(r"https://[a-z0-9.-]+/\S*")

PROVISIONING_MODELS: Mapping[str, frozenset[str]] = {
    "": frozenset({"preemptible", "reserved", "spot"}),
    "PROVISIONING_MODEL_UNSPECIFIED": frozenset({"preemptible", "reserved", "spot"}),
    "STANDARD": frozenset({"reserved"}),
    "SPOT": frozenset({"spot"}),
    "RESERVATION_BOUND": frozenset({"reserved"}),
}
"""Provisioning model -> the older flags that agree with it."""

# Names that work though no list has them: the families seen in Google's pages and in the field.
_RUNTIME_VERSION = re.compile(
    r"(tpu-vm-(base|v4-base|cos(-\w+)?|(tf|pt|tflite)-[a-z0-9.-]+)"
    r"|v2-(alpha|nightly|tpuv?)[a-z0-9.-]*|v\d+[a-z]?-ubuntu-?\d{4}[a-z0-9-]*"
    r"|tpu-ubuntu\d{4}-[a-z0-9-]+|tpu-vm-tf-nightly[a-z0-9-]*)"
)
_LONGEST_VERSION = 128


def checked_node(parent: str, spec: NodeSpec) -> NodeSpec:
    """The spec with both spellings of its accelerator type; raises CloudError."""
    zone = zone_of(parent)
    kind = _accelerator_type(spec, zone)
    _check_runtime_version(spec.runtime_version)
    generation = catalog.generation(kind.generation)
    completed = replace(
        spec,
        accelerator_type=kind.name,
        accelerator_config=AcceleratorConfig(generation.config_enum or "", kind.topology),
        scheduling=_with_flags(spec.scheduling),
        data_disks=tuple(map(_with_mode, spec.data_disks)),
    )
    _check_scheduling(spec)
    _check(completed, zone, kind.workers)
    return completed


def checked_update(spec: NodeSpec, zone: str) -> NodeSpec:
    """The spec of an existing node after a change; raises CloudError."""
    completed = replace(spec, data_disks=tuple(map(_with_mode, spec.data_disks)))
    _check(completed, zone, spec.kind.workers)
    return completed


def is_runtime_version(text: str) -> bool:
    """Whether a node can have this runtime version; Google takes more than it lists."""
    if text in catalog.runtime_versions():
        return True
    return len(text) <= _LONGEST_VERSION and _RUNTIME_VERSION.fullmatch(text) is not None


def _accelerator_type(spec: NodeSpec, zone: str) -> catalog.AcceleratorType:
    config = spec.accelerator_config
    if bool(spec.accelerator_type) == bool(config):
        raise invalid("Exactly one of 'accelerator_type' and 'accelerator_config' must be set.")
    try:
        if config is not None:
            wanted = f"type '{config.type}' and topology '{config.topology}'"
            kind = catalog.accelerator_type_of_topology(config.type, config.topology)
        else:
            wanted = f"type '{last_part(spec.accelerator_type)}'"
            kind = catalog.accelerator_type(last_part(spec.accelerator_type).lower())
    except catalog.UnknownError:
        raise _not_among_configurations(wanted, zone) from None
    if zone not in catalog.zones_of(kind.name):
        raise _not_among_configurations(wanted, zone)
    return kind


def _not_among_configurations(wanted: str, zone: str) -> CloudError:
    return invalid(
        f"The accelerator configuration for {wanted} could not be found among the accelerator "
        f"configurations of zone '{zone}'."
    )


def _check_runtime_version(text: str) -> None:
    if not text:
        raise invalid("A 'runtime_version' must be set.")
    if not is_runtime_version(text):
        shown = text[:_LONGEST_VERSION]
        raise invalid(f"The runtime version '{shown}' could not be found.")


def _with_flags(scheduling: Scheduling) -> Scheduling:
    """The spec with the older flags that its provisioning model means."""
    if scheduling.provisioning_model == "SPOT":
        return replace(scheduling, spot=True)
    if scheduling.provisioning_model == "RESERVATION_BOUND":
        return replace(scheduling, reserved=True)
    return scheduling


def _with_mode(disk: DataDisk) -> DataDisk:
    """READ_WRITE when no mode was asked for, as the field's documentation says."""
    asked = disk.mode if disk.mode != "DISK_MODE_UNSPECIFIED" else ""
    return replace(disk, mode=asked or "READ_WRITE")


def _check(spec: NodeSpec, zone: str, workers: int) -> None:
    """Check every field but type and runtime version of a slice of `workers`; raises CloudError."""
    for field_is_right in _CHECKS:
        field_is_right(spec)
    _check_disks(spec.data_disks, zone, workers)


def _check_scheduling(spec: NodeSpec) -> None:
    """Check that at most one way to get capacity is set; raises CloudError."""
    scheduling = spec.scheduling
    flags = {name for name in ("preemptible", "reserved", "spot") if getattr(scheduling, name)}
    if len(flags) > 1:
        raise invalid("Only one of 'preemptible', 'reserved' and 'spot' can be set.")
    model = scheduling.provisioning_model
    if model not in PROVISIONING_MODELS:
        raise invalid(f"Invalid provisioning model '{model}'.")
    if not flags <= PROVISIONING_MODELS[model]:
        raise invalid(f"The provisioning model {model} does not go with '{flags.pop()}'.")
    bound = model == "RESERVATION_BOUND"
    if bound and not scheduling.reservation_name:
        raise invalid("The provisioning model RESERVATION_BOUND needs a 'reservation_name'.")
    if scheduling.reservation_name and not (bound or scheduling.reserved):
        raise invalid("A 'reservation_name' needs the provisioning model RESERVATION_BOUND.")


def _check_description(spec: NodeSpec) -> None:
    if len(spec.description) > MAX_DESCRIPTION:
        raise invalid(f"The description must have at most {MAX_DESCRIPTION} characters.")


def _check_labels(spec: NodeSpec) -> None:
    if len(spec.labels) > MAX_LABELS:
        raise invalid(f"A node can have at most {MAX_LABELS} labels.")
    for key, value in spec.labels.items():
        if not (_LABEL_KEY.fullmatch(key) and _LABEL_VALUE.fullmatch(value)):
            raise invalid(f"Invalid label '{_shown(key)}': '{_shown(value)}'.")


def _check_metadata(spec: NodeSpec) -> None:
    total_bytes = 0
    for key, value in spec.metadata.items():
        if not _METADATA_KEY.fullmatch(key):
            raise invalid(f"Invalid metadata key '{_shown(key)}'.")
        value_bytes = len(value.encode(errors="replace"))
        if value_bytes > MAX_METADATA_VALUE_BYTES:
            limit = f"at most {MAX_METADATA_VALUE_BYTES} bytes"
            raise invalid(f"The value of the metadata key '{key}' must have {limit}.")
        total_bytes += len(key) + value_bytes
    if total_bytes > MAX_METADATA_BYTES:
        raise invalid(f"The metadata must have at most {MAX_METADATA_BYTES} bytes.")


def _check_tags(spec: NodeSpec) -> None:
    if len(spec.tags) > MAX_TAGS or len(set(spec.tags)) < len(spec.tags):
        raise invalid(f"A node can have at most {MAX_TAGS} tags, each of them once.")
    for tag in spec.tags:
        if not _TAG.fullmatch(tag):
            raise invalid(f"Invalid tag '{_shown(tag)}'.")


def _check_cidr_block(spec: NodeSpec) -> None:
    if not spec.cidr_block:
        return
    try:
        block = IPv4Network(spec.cidr_block)
    except ValueError:
        raise invalid(f"Invalid CIDR block '{_shown(spec.cidr_block)}'.") from None
    if block.prefixlen > LONGEST_CIDR_PREFIX or not any(map(block.subnet_of, _PRIVATE)):
        needed = f"a private block of /{LONGEST_CIDR_PREFIX} or larger"
        raise invalid(f"Invalid CIDR block '{spec.cidr_block}': it must be {needed}.")


def _check_networks(spec: NodeSpec) -> None:
    if spec.network is not None and spec.networks:
        raise invalid("Only one of 'network_config' and 'network_configs' can be set.")
    for network in spec.networks if spec.network is None else (spec.network,):
        _check_network(network)


def _check_network(network: Network) -> None:
    if network.network and not _NETWORK.fullmatch(network.network):
        raise invalid(f"Invalid network '{_shown(network.network)}'.")
    if network.subnetwork and not _SUBNETWORK.fullmatch(network.subnetwork):
        raise invalid(f"Invalid subnetwork '{_shown(network.subnetwork)}'.")
    if network.queue_count < 0:
        raise invalid("The queue count must not be negative.")


def _check_service_account(spec: NodeSpec) -> None:
    account = spec.service_account
    if account is None:
        return
    if account.email and not _EMAIL.fullmatch(account.email):
        raise invalid(f"Invalid service account '{_shown(account.email)}'.")
    for scope in account.scopes:
        if not _SCOPE.fullmatch(scope):
            raise invalid(f"Invalid scope '{_shown(scope)}'.")


def _check_boot_disk(spec: NodeSpec) -> None:
    key = spec.boot_disk.kms_key_name if spec.boot_disk else ""
    if key and not _KMS_KEY.fullmatch(key):
        raise invalid(f"Invalid KMS key name '{_shown(key)}'.")


def _check_disks(disks: tuple[DataDisk, ...], zone: str, workers: int) -> None:
    if len(disks) > MAX_DATA_DISKS:
        raise invalid(f"A node can have at most {MAX_DATA_DISKS} data disks.")
    if len({disk.source for disk in disks}) < len(disks):
        raise invalid("A disk can be attached to a node only once.")
    for disk in disks:
        _check_disk(disk, zone, workers)


def _check_disk(disk: DataDisk, zone: str, workers: int) -> None:
    source = _DISK.fullmatch(disk.source)
    if source is None:
        form = "projects/PROJECT/zones/ZONE/disks/DISK"
        raise invalid(f"Invalid source disk '{_shown(disk.source)}': it must be {form}.")
    if source["place"] not in (zone, zone.rpartition("-")[0]):
        raise invalid(f"The disk '{disk.source}' is not in the zone '{zone}' of the node.")
    unknown = set(disk.worker_ids) - {str(index) for index in range(workers)}
    if unknown:
        raise invalid(f"The node has no worker '{_shown(min(unknown))}' to attach a disk to.")
    if disk.mode == "READ_WRITE" and len(disk.worker_ids or range(workers)) > 1:
        raise invalid(f"The disk '{disk.source}' can be shared by several workers READ_ONLY only.")


def _shown(text: str) -> str:
    return text if len(text) <= 128 else f"{text[:128]}..."


_CHECKS: tuple[Callable[[NodeSpec], None], ...] = (
    _check_description,
    _check_labels,
    _check_metadata,
    _check_tags,
    _check_cidr_block,
    _check_networks,
    _check_service_account,
    _check_boot_disk,
    _check_scheduling,
)
