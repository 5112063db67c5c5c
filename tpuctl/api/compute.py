"""Compute Engine: how many external addresses a region has, and how many are in use.

https://cloud.google.com/compute/docs/reference/rest/v1/regions/get: `quotas` has the metric
IN_USE_ADDRESSES with its limit and its usage, which is exact.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tpuctl.api.tpu.hints import CallSubject
from tpuctl.api.tpu.network_errors import ADDRESSES, address_error, without_addresses_hint
from tpuctl.api.tpu.rest import RestApi
from tpuctl.errors import CapacityError, TransientError


@dataclass(frozen=True, slots=True)
class AddressQuota:
    """The external addresses of one region."""

    region: str
    limit: int
    used: int

    @property
    def left(self) -> int:
        """How many more there may be."""
        return max(0, self.limit - self.used)

    def shortage(self, wanted: int, about: CallSubject) -> CapacityError | None:
        """The error that so many addresses are not left; None where they are."""
        if wanted <= self.left:
            return None
        there = f"{self.left} of {self.limit}" if self.used else str(self.limit)
        text = f"{wanted} external addresses are needed, and {self.region} has {there}"
        text += " left" if self.used else f" (quota {ADDRESSES})"
        kind = address_error(wanted, self.limit)
        return kind(f"{about.subject}: {text}", hint=without_addresses_hint(about))


AddressReader = Callable[[str], AddressQuota]
"""Reads the quota of a region; raises TransientError, and what tokens raise."""


def address_quota(rest: RestApi, project: str, region: str) -> AddressQuota:
    """The quota of a region; raises TransientError where it is not told, and what tokens raise."""
    try:
        reply = rest.request("GET", f"/compute/v1/projects/{project}/regions/{region}")
    except OSError as error:
        raise TransientError(f"the address quota cannot be read: {error}") from error
    try:
        metrics = {str(row["metric"]): row for row in reply.document["quotas"]}
        found = metrics[ADDRESSES]
        return AddressQuota(region, int(found["limit"]), int(found["usage"]))
    except (ValueError, TypeError, LookupError) as error:
        raise TransientError(f"the address quota is not known: HTTP {reply.status}") from error
