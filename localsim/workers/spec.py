"""What a slice is told to be, and what its workers answer: the words between the cloud and here."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class UpcomingMaintenance:
    """An announced maintenance of the slice's hosts; `type` and `status` as the API spells them."""

    type: str
    can_reschedule: bool
    window_start_s: float
    window_end_s: float
    latest_window_start_s: float
    status: str


@dataclass(frozen=True, slots=True)
class GuestAttribute:
    """One entry that a worker told the control plane."""

    namespace: str
    key: str
    value: str


class NotToldError(Exception):
    """The control plane could not take a worker's news."""


Tell: TypeAlias = Callable[[str, int, str, str, str | None], Awaitable[None]]
"""Tells the control plane: slice, worker, namespace, key, value; None deletes the entry.

It returns when the news is durable; raises NotToldError.
"""


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
    external_addresses: tuple[str, ...] = ()
    """One per worker, or none at all."""
    service_account: str = ""
    """Its e-mail address; the project's Compute Engine default account without one."""
    scopes: tuple[str, ...] = ()
    """What its tokens are good for; none named means cloud-platform."""
    maintenance: UpcomingMaintenance | None = None
    guest_attributes: tuple[tuple[GuestAttribute, ...], ...] = ()
    """What each worker told in earlier boots; it may end before the last worker."""
    never_boots: tuple[int, ...] = ()
    """Workers that stay down; a slice with one never comes up."""
    ssh_keys_delay_s: float = 0.0
    """Simulated seconds until SSH keys count, after the boot and after each change."""

    def addresses_of(self, index: int) -> tuple[str, ...]:
        """Where a worker is reached: its VPC address, then its external one if it has one."""
        return self.addresses[index], *self.external_addresses[index : index + 1]


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """What guest attributes publish of a worker."""

    hostname: str
    host_key: str
    """`ssh-ed25519 AAAA…`"""
