"""Whether a bucket and those who read it are in one region, and what it costs when not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuctl.errors import NotFoundError, PermissionDeniedError, TransientError
from tpuctl.store.gcs.bulk import BulkBucket

if TYPE_CHECKING:
    from tpuctl.catalog.egress import EgressRate

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class EgressCharge:
    """The price of reading a bucket in a zone of another region."""

    bucket: str
    location: str
    zone: str
    rate: EgressRate

    def warning(self, size_bytes: int | None = None) -> str:
        """The text of a warning, with the price of so many bytes where they are known."""
        price = self.rate.usd_per_gib
        if price is None:
            cost = "no price of that is known"
        else:
            told = f"list price of {self.rate.as_of}" if self.rate.as_of else "assumed"
            cost = f"{price:.2f} USD/GiB ({told}){_whole(price, size_bytes)}"
        return (
            f"bucket {self.bucket} is in {self.location.lower()}: what workers in {self.zone} "
            f"read of it is egress, {cost}"
        )


def _whole(usd_per_gib: float, size_bytes: int | None) -> str:
    if not size_bytes:
        return ""
    usd = usd_per_gib * size_bytes / GIB
    amount = f"{usd:.2f}" if usd >= 0.005 else "less than 0.01"
    return f", {amount} USD for these bytes"


def egress_charge(bulk: BulkBucket, bucket: str, zone: str) -> EgressCharge | None:
    """The price of reading a bucket in a zone; None in its own region, or when that is unknown."""
    try:
        facts = bulk.facts()
    except (PermissionDeniedError, NotFoundError, TransientError):
        return None  # who copies will hear of it, if it matters
    region = zone.rpartition("-")[0]
    if facts.location.lower() == region:
        return None
    from tpuctl.catalog.egress import egress_rate  # nobody whose data is near pays for it

    rate = egress_rate(facts.location, facts.location_type, facts.data_locations, region)
    return None if rate is None else EgressCharge(bucket, facts.location, zone, rate)
