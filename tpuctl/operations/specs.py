"""What the user typed, checked and completed before anything is asked of the API."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tpuctl import catalog
from tpuctl.errors import UsageError
from tpuctl.models.node import NodeSpec, Provisioning

NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Asked:
    """A slice as the command line describes it."""

    name: str
    zone: str
    accelerator_type: str | None = None
    generation: str | None = None
    topology: str | None = None
    runtime_version: str | None = None
    spot: bool = False
    reserved: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    network: str | None = None
    subnetwork: str | None = None
    internal_ips: bool = False
    service_account: str | None = None


def node_spec(asked: Asked) -> NodeSpec:
    """The specification of the slice, runtime version included; raises UsageError."""
    check_name(asked.name)
    check_labels(asked.labels)
    try:
        kind = _accelerator_type(asked)
        _check_zone(kind.name, asked.zone)
    except catalog.UnknownError as error:
        raise unknown(error) from error
    return NodeSpec(
        name=asked.name,
        zone=asked.zone,
        accelerator_type=kind.name,
        runtime_version=_runtime_version(kind, asked.runtime_version),
        provisioning=_provisioning(asked),
        labels=asked.labels,
        metadata=asked.metadata,
        network=asked.network,
        subnetwork=asked.subnetwork,
        internal_ips=asked.internal_ips,
        service_account=asked.service_account,
    )


def check_name(name: str) -> None:
    """The API's rule for names that also become host names; raises UsageError."""
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be a name",
            hint="use 1 to 63 of a-z, 0-9 and -, a letter first, no - at the end",
        )


def check_labels(labels: Mapping[str, str]) -> None:
    """The API's rule for labels; raises UsageError."""
    for key, value in labels.items():
        if not LABEL_KEY.fullmatch(key) or not LABEL_VALUE.fullmatch(value):
            raise UsageError(
                f"label {key}={value} is not allowed",
                hint="keys and values are 63 of a-z, 0-9, _ and -; a key starts with a letter",
            )


def unknown(error: catalog.UnknownError) -> UsageError:
    """An unknown name of the catalog, with the nearest known ones."""
    noun = {"zone": "zones", "runtime version": "runtimes"}.get(error.kind, "types")
    near = f"did you mean {' or '.join(error.nearest)}? " if error.nearest else ""
    return UsageError(
        f"unknown {error.kind} {error.name!r}", hint=f"{near}run: tpuctl catalog {noun}"
    )


def _accelerator_type(asked: Asked) -> catalog.AcceleratorType:
    if asked.accelerator_type and not (asked.generation or asked.topology):
        return catalog.accelerator_type(asked.accelerator_type)
    if asked.generation and asked.topology and not asked.accelerator_type:
        return catalog.accelerator_type_of_topology(asked.generation, asked.topology)
    raise UsageError(
        "say which slice: either --accelerator-type, or --type and --topology together",
        hint="run: tpuctl catalog types",
    )


def _check_zone(type_name: str, zone: str) -> None:
    if zone not in catalog.zones():
        raise catalog.UnknownError("zone", zone, catalog.nearest(zone, catalog.zones()))
    offered = catalog.zones_of(type_name)
    if zone not in offered:
        raise UsageError(
            f"{type_name} is not offered in {zone}", hint=f"it is in: {', '.join(offered)}"
        )


def _runtime_version(kind: catalog.AcceleratorType, wanted: str | None) -> str:
    if wanted is None:
        return catalog.default_runtime_version(kind.name)
    known = catalog.runtime_versions(kind.generation)
    if wanted not in known and not wanted.startswith("tpu-vm-tf-"):
        error = catalog.UnknownError("runtime version", wanted, catalog.nearest(wanted, known))
        raise unknown(error)
    return wanted


def _provisioning(asked: Asked) -> str:
    if asked.spot and asked.reserved:
        raise UsageError("--spot and --reserved exclude each other", hint="leave one out")
    if asked.spot:
        return Provisioning.SPOT
    return Provisioning.RESERVED if asked.reserved else Provisioning.ON_DEMAND
