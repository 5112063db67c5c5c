"""The specification of a slice and its faults, as the workers are given them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from typing import TypeAlias

from localsim.worker_facts import GuestAttributesEntry, Maintenance, SlicePosition
from tpuctl.catalog import AcceleratorType, accelerator_type

SUBNET_PREFIX = 16
"""Bits of the network that the workers of a zone share; its first address is the gateway."""


class AttributeNotPublishedError(Exception):
    """The control plane could not store a guest attribute."""


PublishAttribute: TypeAlias = Callable[[str, int, str, str, str | None], Awaitable[None]]
"""Tells the control plane: slice, worker, namespace, key, value; None deletes the entry.

It returns when the news is durable; raises AttributeNotPublishedError.
"""


@dataclass(frozen=True, slots=True)
class HostFault:
    """What is wrong with one worker on purpose; nothing by default."""

    hangs: bool = False
    """Its programs and servers stand still."""
    killed: bool = False
    """It has lost its power, until the next boot."""
    cut_off: bool = False
    """Its network cable is pulled."""
    disk_full: bool = False
    refuses_ssh: bool = False
    slow: float | None = None
    """How many times slower its programs run."""


HEALTHY = HostFault()


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
    maintenance: Maintenance | None = None
    guest_attributes: tuple[tuple[GuestAttributesEntry, ...], ...] = ()
    """What each worker told in earlier boots; it may end before the last worker."""
    never_boots: tuple[int, ...] = ()
    """Workers that stay down; a slice with one never comes up."""
    ssh_keys_delay_s: float = 0.0
    """Simulated seconds until SSH keys count, after the boot and after each change."""

    project_metadata: Mapping[str, str] = field(default_factory=dict)
    """What every worker of the project is shown."""
    multislice: SlicePosition | None = None
    worker_faults: Mapping[int, HostFault] = field(default_factory=dict)
    """By worker; one that is not in it is healthy."""

    @property
    def kind(self) -> AcceleratorType:
        """The accelerator type in the catalog."""
        return accelerator_type(self.accelerator_type)

    @property
    def subnet(self) -> IPv4Network:
        """The network of the VPC that its addresses are in: 10.128.0.0/16."""
        return IPv4Network(f"{self.addresses[0]}/{SUBNET_PREFIX}", strict=False)

    @property
    def gateway(self) -> str:
        """The address by which its workers reach the others: 10.128.0.1."""
        return str(self.subnet.network_address + 1)

    def full_name(self, hostname: str) -> str:
        """Return a host name with the domain of the VPC, HOST.ZONE.c.PROJECT.internal."""
        return f"{hostname}.{self.zone}.c.{self.project}.internal"

    def addresses_of(self, index: int) -> tuple[str, ...]:
        """Return a worker's VPC address, then its external one if it has one."""
        return self.addresses[index], *self.external_addresses[index : index + 1]
