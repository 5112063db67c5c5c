"""The content of a worker's metadata server, as a tree below computeMetadata/v1."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import prod
from typing import Any, TypeAlias

from localsim import accounts
from localsim.worker_facts import Maintenance
from localsim.workers import chips
from localsim.workers.spec import SliceSpec
from tpuctl.catalog import AcceleratorType, generation

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
TOKEN_LIFE_S = 3599
MEGASCALE_PORT = 8081
_HOST_BOUNDS = {1: (1, 1, 1), 4: (2, 2, 1), 8: (2, 4, 1)}

Tree: TypeAlias = "Mapping[str, Tree | str | tuple[str, ...] | RecordValue | SecretValue]"
"""Directories, texts, lists of lines, records, and secrets."""


class VerbatimDirectory(dict[str, Any]):
    """A directory whose names stay as they are in JSON: users chose them."""


class ArrayDirectory(dict[str, Any]):
    """A directory with the names 0, 1, … that is an array in JSON."""


@dataclass(frozen=True, slots=True)
class RecordValue:
    """One answer of several values: lines of `key value`, or a JSON object."""

    content: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SecretValue:
    """A JSON answer that is given only when it is asked for by its own path."""

    content: Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What a worker knows beside the spec of its slice."""

    hostname: str
    is_preempted: bool
    access_token: str
    guest_attributes: Mapping[str, Mapping[str, str]]


def build_tree(spec: SliceSpec, index: int, present: WorkerState) -> Tree:
    """Return the tree of one worker; names as in Compute Engine's and Cloud TPU's documents."""
    hostname = present.hostname
    return {
        "instance": {
            "attributes": VerbatimDirectory(instance_attributes(spec, index)),
            "guest-attributes": VerbatimDirectory(
                {name: VerbatimDirectory(each) for name, each in present.guest_attributes.items()}
            ),
            "hostname": spec.full_name(hostname),
            "id": instance_id(hostname),
            "maintenance-event": (
                "TERMINATE_ON_HOST_MAINTENANCE" if _is_maintained(spec) else "NONE"
            ),
            "name": hostname,
            "network-interfaces": ArrayDirectory({"0": _network_interface(spec, index)}),
            "preempted": "TRUE" if present.is_preempted else "FALSE",
            "service-accounts": service_accounts(
                service_account(spec), scopes(spec), present.access_token
            ),
            "upcoming-maintenance": _upcoming(spec.maintenance) if spec.maintenance else "NONE",
            "zone": f"projects/{spec.project_number}/zones/{spec.zone}",
        },
        "project": {
            "attributes": VerbatimDirectory(spec.project_metadata),
            "numeric-project-id": str(spec.project_number),
            "project-id": spec.project,
        },
        "universe": {"universe-domain": "googleapis.com"},
    }


def instance_attributes(spec: SliceSpec, index: int) -> Mapping[str, str]:
    """Return the user's metadata and what the TPU service adds to it."""
    return {
        **spec.metadata,
        "accelerator-type": spec.accelerator_type,
        "agent-worker-number": str(index),
        "instance-id": spec.name.rpartition("/")[2],
        "tpu-env": tpu_env(spec, index),
        "worker-network-endpoints": ",".join(f"unknown:unknown:{ip}" for ip in spec.addresses),
    }


def ssh_keys(spec: SliceSpec) -> str:
    """Return lines `user:key`: the node's, and the project's unless block-project-ssh-keys."""
    own = spec.metadata.get("ssh-keys", "")
    if spec.metadata.get("block-project-ssh-keys", "").lower() in ("true", "1", "y", "yes"):
        return own
    return "\n".join(filter(None, (own, spec.project_metadata.get("ssh-keys", ""))))


def instance_id(hostname: str) -> str:
    """Return a stable id of the worker's VM, which is not the node's id, as at Google."""
    return str(int.from_bytes(hashlib.sha256(hostname.encode()).digest()[:8]) >> 1)


def tpu_env(spec: SliceSpec, index: int) -> str:
    """Return lines `KEY: 'value'`, as libtpu and JAX read them."""
    kind = spec.kind
    bounds = _HOST_BOUNDS[kind.chips_per_worker]
    hosts = tuple(chips // host for chips, host in zip(_three(kind.topology), bounds, strict=True))
    values = {
        "ACCELERATOR_TYPE": kind.name,
        "ALT": "false",
        "CHIPS_PER_HOST_BOUNDS": _comma(bounds),
        "CONSUMER_PROJECT_ID": spec.project,
        "CONSUMER_PROJECT_NUMBER": spec.project_number,
        "ENABLE_ICI_RESILIENCY": "false",
        "HOST_BOUNDS": _comma(hosts),
        "INFERENCE_MODE": "false",
        "MAINTENANCE_ACTION_FLAG": "unhealthy-maintenance" if _is_maintained(spec) else "",
        "NODE_ID": spec.name.rpartition("/")[2],
        "PREEMPTIBLE": str(spec.spot).lower(),
        "RUNTIME_VERSION": spec.runtime_version,
        "TOPOLOGY": kind.topology,
        "TPU_CHIPS_PER_PROCESS_BOUNDS": _comma(bounds),
        "TPU_PROCESS_BOUNDS": _comma(hosts),
        "TPU_RUNTIME_METRICS_PORTS": _comma(
            chips.METRICS_PORT + chip for chip in range(kind.chips_per_worker)
        ),
        "TPU_TOPOLOGY_ALT": "false",
        "TPU_TOPOLOGY_WRAP": _comma(str(wraps).lower() for wraps in _wraps(kind)),
        "TYPE": generation(kind.generation).config_enum,
        "UID": spec.node_id,
        "WORKER_ID": index,
        "WRAP": _comma(str(wraps).lower() for wraps in _wraps(kind)),
        "ZONE": spec.zone,
        **megascale_attributes(spec),
    }
    return "".join(f"{key}: '{value}'\n" for key, value in values.items())


def megascale_attributes(spec: SliceSpec) -> Mapping[str, str]:
    """Return the MEGASCALE_* values of a slice of several; empty for one that is alone."""
    place = spec.multislice
    if place is None:
        return {}
    coordinator = f"{place.coordinator}:{MEGASCALE_PORT}" if place.coordinator else ""
    return {
        "MEGASCALE_COORDINATOR_ADDRESS": coordinator,
        "MEGASCALE_NUM_SLICES": str(place.num_slices),
        "MEGASCALE_SLICE_ID": str(place.slice_id),
    }


def _is_maintained(spec: SliceSpec) -> bool:
    """Whether the maintenance of its hosts has begun."""
    return spec.maintenance is not None and spec.maintenance.status == "ONGOING"


def _upcoming(maintenance: Maintenance) -> RecordValue:
    """The words of Compute Engine's metadata server for its API's Maintenance."""
    return RecordValue(
        {
            "can_reschedule": str(maintenance.can_reschedule).lower(),
            "latest_window_start_time": _rfc3339(maintenance.latest_window_start_s),
            "maintenance_status": maintenance.status,
            "type": maintenance.type,
            "window_end_time": _rfc3339(maintenance.window_end_s),
            "window_start_time": _rfc3339(maintenance.window_start_s),
        }
    )


def _rfc3339(moment_s: float) -> str:
    return f"{datetime.fromtimestamp(int(moment_s), UTC):%Y-%m-%dT%H:%M:%SZ}"


def _network_interface(spec: SliceSpec, index: int) -> Tree:
    internal, *external = spec.addresses_of(index)
    access = [{"external-ip": address, "type": "ONE_TO_ONE_NAT"} for address in external]
    return {
        "access-configs": ArrayDirectory({str(number): each for number, each in enumerate(access)}),
        "ip": internal,
    }


def _wraps(kind: AcceleratorType) -> tuple[bool, bool, bool]:
    """Which axes close to a ring: a 3-D slice is a torus when every side is a multiple of four."""
    ring = generation(kind.generation).ring_length
    x, y, z = _three(kind.topology)
    if ring is not None:
        return x == ring, y == ring, False
    is_torus = all(side % 4 == 0 for side in (x, y, z))
    return is_torus, is_torus, is_torus


def _three(topology: str) -> tuple[int, int, int]:
    x, y, *rest = (int(side) for side in topology.split("x"))
    return x, y, prod(rest)


def _comma(values: Iterable[object]) -> str:
    return ",".join(str(value) for value in values)


def service_account(spec: SliceSpec) -> str:
    """Return the e-mail address of the account that the workers' programs act as."""
    return spec.service_account or accounts.default_compute_email(spec.project_number)


def scopes(spec: SliceSpec) -> tuple[str, ...]:
    """Return the OAuth scopes of the account's tokens."""
    return spec.scopes or SCOPES


def service_accounts(email: str, scopes: tuple[str, ...], access_token: str) -> Tree:
    """Return the directory of a machine's only account, which is the default."""
    account: Tree = {
        "aliases": ("default",),
        "email": email,
        "scopes": scopes,
        "token": SecretValue(
            {
                "access_token": access_token,
                "expires_in": TOKEN_LIFE_S,
                "token_type": "Bearer",
            }
        ),
    }
    return {"default": account, email: account}
