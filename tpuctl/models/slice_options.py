"""What may be said of a slice beside its type and zone: one name for all who say it.

An option of `node create` and `qr create`, a key of a job file's `resources`, a default of a
context and a field of `NodeSpec` that mean the same are called the same.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tpuctl.errors import UsageError
from tpuctl.models.node import BootDisk, DataDisk, DiskMode, NodeSpec

LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
DISK = re.compile(r"(?:https://[^ ]+/)?projects/[^/]+/zones/([^/]+)/disks/[^/]+")
SCOPE = "https://www.googleapis.com/auth/"
MOST_DESCRIPTION = 512
MOST_RUN_S = 7 * 86400.0
"""Flex-start slices live for a week at most."""
DISK_MODES = {"read-write": DiskMode.READ_WRITE, "read-only": DiskMode.READ_ONLY}
YES_OR_NO = {"true": True, "false": False}
TIERS = ("reserved", "reservation", "best_effort", "flex_start")
"""The options that say how capacity is obtained; `spot` is a field of `Resources` itself."""
NETWORKS = frozenset({"network", "subnetwork"})
"""Who gives one of them does not get the other one from a context: they would not fit."""


@dataclass(frozen=True, slots=True)
class SliceOptions:
    """The options of a job's slices, by the names of `qr create`; what is absent is the default."""

    network: str | None = None
    subnetwork: str | None = None
    internal_ips: bool | None = None
    """None: not said, so that a context decides."""
    service_account: str | None = None
    scopes: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    startup_script: str | None = None
    """Its text."""
    data_disks: tuple[DataDisk, ...] = ()
    boot_disk: BootDisk | None = None
    shielded_secure_boot: bool = False
    description: str = ""
    autocheckpoint: bool = False
    reserved: bool = False
    reservation: str | None = None
    best_effort: bool = False
    flex_start: bool = False
    max_run_duration_s: float | None = None

    @property
    def given(self) -> frozenset[str]:
        """The names of the options that were given."""
        absent = SliceOptions()
        names = (each.name for each in fields(self))
        return frozenset(name for name in names if getattr(self, name) != getattr(absent, name))

    @property
    def node_fields(self) -> dict[str, Any]:
        """The fields of a `NodeSpec` that are said here."""
        said = {name: getattr(self, name) for name in NODE_FIELDS}
        return {**said, "internal_ips": bool(self.internal_ips)}


NODE_FIELDS = tuple(
    each.name
    for each in fields(SliceOptions)
    if each.name in {spec.name for spec in fields(NodeSpec)}
)


def applied_defaults(defaults: Mapping[str, Any], given: Collection[str]) -> dict[str, Any]:
    """The defaults that hold where the options of these names were given."""
    taken = {*given, *(NETWORKS if NETWORKS & {*given} else ())}
    return {name: value for name, value in defaults.items() if name not in taken}


def display_value(value: Any) -> str:
    """The value of an option for people, a flag as `true` or `false`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={each}" for key, each in value.items())
    if isinstance(value, DataDisk):
        return value.source
    if isinstance(value, BootDisk):
        return value.kms_key
    return ", ".join(map(display_value, value)) if isinstance(value, tuple) else str(value)


def defaults_text(applied: Mapping[str, Any]) -> str:
    """`network: vpc-1 (context), internal_ips: true (context)`; empty without any."""
    return ", ".join(f"{name}: {display_value(value)} (context)" for name, value in applied.items())


def check_labels(labels: Mapping[str, str]) -> None:
    """Check labels by the API's rule; raises UsageError."""
    for key, value in labels.items():
        if not LABEL_KEY.fullmatch(key) or not LABEL_VALUE.fullmatch(value):
            raise UsageError(
                f"label {key}={value} is not allowed",
                hint="keys and values are 63 of a-z, 0-9, _ and -; a key starts with a letter",
            )


def check_disks(disks: Collection[DataDisk], zone: str, place: str = "--data-disk") -> None:
    """Check that data disks can be attached in a zone; raises UsageError."""
    for disk in disks:
        path = DISK.fullmatch(disk.source)
        if path is None or path.group(1) != zone:
            raise UsageError(
                f"{place}: {disk.source!r} is not a disk in {zone}",
                hint=f"write source=projects/P/zones/{zone}/disks/D",
            )


def zones_of_disks(disks: Collection[DataDisk]) -> tuple[str, ...]:
    """The zones that data disks are in, each of them once."""
    paths = (DISK.fullmatch(disk.source) for disk in disks)
    return tuple(dict.fromkeys(path.group(1) for path in paths if path))


def data_disk(parts: Mapping[str, str], place: str = "--data-disk") -> DataDisk:
    """A data disk from gcloud's `source=DISK,mode=MODE`; raises UsageError."""
    unknown_keys = sorted(parts.keys() - {"source", "mode"})
    mode = parts.get("mode", "read-write")
    if unknown_keys or "source" not in parts or mode not in DISK_MODES:
        text = ",".join(f"{key}={value}" for key, value in parts.items())
        wrong = f"{unknown_keys[0]!r} is not a part" if unknown_keys else f"{text!r} is not a disk"
        raise UsageError(
            f"{place}: {wrong}",
            hint="write source=projects/P/zones/Z/disks/D,mode=read-write (or read-only)",
        )
    return DataDisk(parts["source"], DISK_MODES[mode])


def boot_disk(parts: Mapping[str, str]) -> BootDisk | None:
    """A boot disk from gcloud's `kms-key=KEY,confidential-compute=true`; None without any part.

    Raises UsageError, also for confidential compute without a key, which gcloud refuses as well
    (`ParseBootDiskConfigurations` of its tpu_vm/util.py).
    """
    if not parts:
        return None
    unknown_keys = sorted(parts.keys() - {"kms-key", "confidential-compute"})
    confidential = YES_OR_NO.get(parts.get("confidential-compute", "false").lower())
    if unknown_keys or confidential is None:
        wrong = unknown_keys[0] if unknown_keys else parts["confidential-compute"]
        raise UsageError(
            f"--boot-disk: {wrong!r} is not a part",
            hint="write kms-key=projects/P/locations/L/keyRings/R/cryptoKeys/K"
            ",confidential-compute=true",
        )
    disk = BootDisk(parts.get("kms-key", ""), confidential)
    check_boot_disk(disk)
    return disk


def check_boot_disk(disk: BootDisk, place: str = "--boot-disk") -> None:
    """Refuse confidential compute without a key; raises UsageError."""
    if disk.confidential_compute and not disk.kms_key:
        raise UsageError(
            f"{place}: confidential compute needs a key of Cloud KMS",
            hint="add the key: projects/P/locations/L/keyRings/R/cryptoKeys/K",
        )


def check_run_duration(seconds: float | None, place: str = "--max-run-duration") -> None:
    """Check how long flex-start slices shall live; raises UsageError."""
    if seconds is not None and not 0 < seconds <= MOST_RUN_S:
        raise UsageError(
            f"{place} must be more than nothing and at most 7 days",
            hint="write it as 90m, 24h or 7d",
        )


def full_scopes(scopes: Collection[str]) -> tuple[str, ...]:
    """Scopes as the API wants them: `storage-rw` becomes an address below `auth/`."""
    return tuple(scope if "://" in scope else SCOPE + scope for scope in scopes)
