"""Why the network has no place for a slice: addresses, subnets and policies are not chips."""

from enum import StrEnum

from tpuctl.models.quota_holders import region_of


class NetworkCause(StrEnum):
    """One cause; its value is the `reason` of the error, and is kept in records of jobs."""

    ADDRESSES_USED = "external_addresses_used"
    """Others hold the external addresses of the region, which would be enough."""
    ADDRESS_LIMIT = "external_address_limit"
    """The region's quota of external addresses is smaller than what the slice needs."""
    SUBNET_FULL = "subnet_full"
    NO_SUBNETWORK = "no_such_subnetwork"
    ADDRESS_POLICY = "external_address_policy"
    """A policy of the organization forbids external addresses."""
    NO_NETWORK = "no_such_network"

    @property
    def may_pass(self) -> bool:
        """Whether it ends when others give their addresses back."""
        return self in (NetworkCause.ADDRESSES_USED, NetworkCause.SUBNET_FULL)

    @property
    def is_regional(self) -> bool:
        """Whether another region may have what this one lacks."""
        return self not in (NetworkCause.ADDRESS_POLICY, NetworkCause.NO_NETWORK)

    def holds_in(self, zone: str, other_zone: str) -> bool:
        """Whether, met in one zone, it holds in another one as well."""
        return not self.is_regional or region_of(zone) == region_of(other_zone)


def cause_of(reason: str) -> NetworkCause | None:
    """The cause that is the reason of an error; None for other reasons."""
    return NetworkCause(reason) if reason in frozenset(NetworkCause) else None
