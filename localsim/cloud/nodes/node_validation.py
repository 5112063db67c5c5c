"""The checks of a node's spec, which complete it."""

import re
from dataclasses import replace

from localsim.cloud.model.cloud_errors import CloudError, invalid
from localsim.cloud.model.nodes import AcceleratorConfig, DataDisk, NodeSpec, Scheduling
from localsim.cloud.model.resource_names import last_part, zone_of
from localsim.cloud.nodes import node_field_checks
from tpuctl import catalog

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
    node_field_checks.check_scheduling(spec)
    node_field_checks.check(completed, zone, kind.workers)
    return completed


def checked_update(spec: NodeSpec, zone: str) -> NodeSpec:
    """The spec of an existing node after a change; raises CloudError."""
    completed = replace(spec, data_disks=tuple(map(_with_mode, spec.data_disks)))
    kind = catalog.accelerator_type(spec.accelerator_type)
    node_field_checks.check(completed, zone, kind.workers)
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
