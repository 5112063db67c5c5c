"""What the user typed, checked and completed before anything is asked of the API."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tpuctl import catalog
from tpuctl.errors import UsageError
from tpuctl.models.node import DataDisk, DiskMode, NodeSpec, Provisioning
from tpuctl.operations.slices import startup_script

NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
DISK = re.compile(r"(?:https://[^ ]+/)?projects/[^/]+/zones/([^/]+)/disks/[^/]+")
SCOPE = "https://www.googleapis.com/auth/"
MOST_DESCRIPTION = 512
DISK_MODES = {"read-write": DiskMode.READ_WRITE, "read-only": DiskMode.READ_ONLY}


@dataclass(frozen=True, slots=True)
class SliceOptions:
    """A slice as the command line describes it."""

    name: str
    zone: str
    accelerator_type: str | None = None
    generation: str | None = None
    topology: str | None = None
    runtime_version: str | None = None
    provisioning: str = Provisioning.ON_DEMAND
    labels: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    startup_script: str | None = None
    """The text of the script."""
    network: str | None = None
    subnetwork: str | None = None
    internal_ips: bool = False
    service_account: str | None = None
    scopes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    data_disks: tuple[DataDisk, ...] = ()
    description: str = ""
    autocheckpoint: bool = False
    reservation: str | None = None


def node_spec(asked: SliceOptions) -> NodeSpec:
    """The specification of the slice, runtime version included; raises UsageError."""
    check_name(asked.name)
    check_labels(asked.labels)
    _check_details(asked)
    try:
        kind = _accelerator_type(asked)
        _check_zone(kind.name, asked.zone)
    except catalog.UnknownError as error:
        raise unknown_name_error(error) from error
    return NodeSpec(
        name=asked.name,
        zone=asked.zone,
        accelerator_type=kind.name,
        runtime_version=_runtime_version(kind, asked.runtime_version),
        provisioning=asked.provisioning,
        labels=asked.labels,
        metadata=_metadata(asked),
        network=asked.network,
        subnetwork=asked.subnetwork,
        internal_ips=asked.internal_ips,
        service_account=asked.service_account,
        scopes=tuple(each if "://" in each else SCOPE + each for each in asked.scopes),
        tags=asked.tags,
        data_disks=asked.data_disks,
        description=asked.description,
        autocheckpoint=asked.autocheckpoint,
        reservation=asked.reservation,
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


def data_disk(said: Mapping[str, str]) -> DataDisk:
    """`source=DISK,mode=MODE` as gcloud writes it; raises UsageError."""
    unknown_keys = sorted(said.keys() - {"source", "mode"})
    mode = said.get("mode", "read-write")
    if unknown_keys or "source" not in said or mode not in DISK_MODES:
        text = ",".join(f"{key}={value}" for key, value in said.items())
        wrong = f"{unknown_keys[0]!r} is not a part" if unknown_keys else f"{text!r} is no disk"
        raise UsageError(
            f"--data-disk: {wrong}",
            hint="write source=projects/P/zones/Z/disks/D,mode=read-write (or read-only)",
        )
    return DataDisk(said["source"], DISK_MODES[mode])


def unknown_name_error(error: catalog.UnknownError) -> UsageError:
    """An unknown name of the catalog, with the nearest known ones."""
    noun = {"zone": "zones", "runtime version": "runtimes"}.get(error.kind, "types")
    near = f"did you mean {' or '.join(error.nearest)}? " if error.nearest else ""
    return UsageError(
        f"unknown {error.kind} {error.name!r}", hint=f"{near}run: tpuctl catalog {noun}"
    )


def _check_details(asked: SliceOptions) -> None:
    if len(asked.description) > MOST_DESCRIPTION:
        raise UsageError(
            f"--description has {len(asked.description)} characters",
            hint=f"{MOST_DESCRIPTION} are allowed",
        )
    for disk in asked.data_disks:
        path = DISK.fullmatch(disk.source)
        if path is None or path.group(1) != asked.zone:
            raise UsageError(
                f"--data-disk: {disk.source!r} is not a disk in {asked.zone}",
                hint=f"write source=projects/P/zones/{asked.zone}/disks/D",
            )


def _metadata(asked: SliceOptions) -> Mapping[str, str]:
    if asked.startup_script is None:
        return asked.metadata
    if startup_script.KEY in asked.metadata:
        raise UsageError(
            f"--startup-script and the metadata both give {startup_script.KEY!r}",
            hint="leave one out",
        )
    return {**asked.metadata, startup_script.KEY: startup_script.wrap_script(asked.startup_script)}


def _accelerator_type(asked: SliceOptions) -> catalog.AcceleratorType:
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
        nowhere = "no zone offers it through the Cloud TPU API; run: tpuctl catalog types"
        raise UsageError(
            f"{type_name} is not offered in {zone}",
            hint=f"it is in: {', '.join(offered)}" if offered else nowhere,
        )


def _runtime_version(kind: catalog.AcceleratorType, wanted: str | None) -> str:
    if wanted is None:
        return catalog.default_runtime_version(kind.name)
    known = catalog.runtime_versions(kind.generation)
    if wanted not in known and not wanted.startswith("tpu-vm-tf-"):
        error = catalog.UnknownError("runtime version", wanted, catalog.nearest(wanted, known))
        raise unknown_name_error(error)
    return wanted
