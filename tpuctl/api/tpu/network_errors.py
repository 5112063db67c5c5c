"""Refusals that are about the network of a slice, and what to do without what is missing.

Workers without external addresses reach Google's services where their subnet has Private Google
Access: https://cloud.google.com/tpu/docs/configure-networking-access
"""

from tpuctl import catalog
from tpuctl.api.tpu.hints import CallSubject
from tpuctl.errors import CapacityError, NotFoundError, PermissionDeniedError
from tpuctl.models.network_cause import NetworkCause
from tpuctl.models.quota_holders import region_of

ADDRESSES = "IN_USE_ADDRESSES"
"""Compute Engine's quota of external addresses; it counts by region."""
DEFAULT = "default"


class AddressesUsedError(CapacityError):
    """Others hold the external addresses of the region."""

    reason = NetworkCause.ADDRESSES_USED


class AddressLimitError(CapacityError):
    """The region never has as many external addresses as the slices need."""

    reason = NetworkCause.ADDRESS_LIMIT


class SubnetFullError(CapacityError):
    """The subnet has no addresses left."""

    reason = NetworkCause.SUBNET_FULL


class NoSubnetworkError(NotFoundError):
    """There is no subnetwork of the name in the region."""

    reason = NetworkCause.NO_SUBNETWORK


class AddressPolicyError(PermissionDeniedError):
    """A policy of the organization forbids external addresses."""

    reason = NetworkCause.ADDRESS_POLICY


class NoNetworkError(NotFoundError):
    """The project has no network of the name."""

    reason = NetworkCause.NO_NETWORK


NETWORK_ERRORS = (
    *(AddressesUsedError, AddressLimitError, SubnetFullError),
    *(NoSubnetworkError, AddressPolicyError, NoNetworkError),
)


def address_error(wanted: int, limit: int) -> type[AddressesUsedError | AddressLimitError]:
    """Which error it is that a region whose limit is `limit` has no `wanted` addresses left."""
    return AddressLimitError if wanted > limit else AddressesUsedError


def wanted_addresses(accelerator_type: str, slices: int) -> int:
    """How many external addresses the workers of slices take; 0 for an unknown type."""
    try:
        return catalog.accelerator_type(accelerator_type).workers * slices
    except catalog.UnknownError:
        return 0


def without_addresses_hint(about: CallSubject) -> str:
    """How to do without external addresses, with the command that prepares the subnet."""
    return (
        "leave them out: --internal-ips, or internal_ips: true in a job file; the subnet needs "
        f"Private Google Access: gcloud compute networks subnets update "
        f"{about.subnetwork or DEFAULT}{_in_region(about)} --enable-private-ip-google-access"
        f"{about.of_project}"
    )


def new_subnet_hint(about: CallSubject) -> str:
    """How to use another subnet, with the command that makes one."""
    name = f"tpu-{region_of(about.zone)}"
    return (
        f"use another one: --subnetwork {name}, or subnetwork: {name} in a job file; make it: "
        f"gcloud compute networks subnets create {name} --network={about.network or DEFAULT}"
        f"{_in_region(about)} --range=10.200.0.0/20 --enable-private-ip-google-access"
        f"{about.of_project}"
    )


def new_network_hint(about: CallSubject, name: str) -> str:
    """How to use another network, with the command that makes the missing one."""
    return (
        "name one: --network NAME, or network: NAME in a job file; or make it: "
        f"gcloud compute networks create {name} --subnet-mode=auto{about.of_project}"
    )


def _in_region(about: CallSubject) -> str:
    return f" --region={region_of(about.zone)}" if about.zone else ""
