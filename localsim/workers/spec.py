"""What a slice is told to be, and what its workers answer: the words between the cloud and here."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SliceSpec:
    """One node of the cloud as its workers need to know it."""

    name: str
    """The full resource name, projects/P/locations/Z/nodes/N."""
    node_id: int
    project: str
    project_number: int
    zone: str
    accelerator_type: str
    runtime_version: str
    spot: bool
    addresses: tuple[str, ...]
    """One VPC address per worker, in the order of the workers."""
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """What guest attributes publish of a worker."""

    hostname: str
    host_key: str
    """`ssh-ed25519 AAAA…`"""
