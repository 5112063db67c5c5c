"""Whether a bucket and those who read it are in one region, and what it costs when not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.errors import NotFoundError, PermissionDeniedError, TransientError
from tpuctl.store.gcs.bulk import BulkBucket

if TYPE_CHECKING:
    from tpuctl.catalog.egress import EgressRate

GIB = 1024**3


def egress_warning(bulk: BulkBucket, zone: str, size_bytes: int) -> str | None:
    """What workers of a zone pay to read so many bytes of a bucket, as the text of a warning.

    None when the bucket is in the zone's own region, or when nothing is known of it.
    """
    try:
        facts = bulk.facts()
    except (PermissionDeniedError, NotFoundError, TransientError):
        return None  # who copies will hear of it, if it matters
    region = zone.rpartition("-")[0]
    if facts.location.lower() == region:
        return None
    from tpuctl.catalog.egress import egress_rate  # nobody whose data is near pays for it

    rate = egress_rate(facts.location, facts.location_type, facts.data_locations, region)
    if rate is None:
        return None
    return (
        f"bucket {bulk.name} is in {facts.location.lower()}: what workers in {zone} "
        f"read of it is egress, {price_text(rate, size_bytes)}"
    )


def copy_egress_warning(source: BulkBucket, target: BulkBucket, size_bytes: int) -> str | None:
    """What it costs to copy so many bytes between two buckets, as the text of a warning.

    None when both are in one place, or when nothing is known of one of them.
    """
    if source.name == target.name:
        return None
    try:
        here, there = source.facts(), target.facts()
    except (PermissionDeniedError, NotFoundError, TransientError):
        return None  # who copies will hear of it, if it matters
    if here.location == there.location:
        return None
    from tpuctl.catalog.egress import egress_rate

    places = here.location.lower(), there.location.lower()
    rate = egress_rate(here.location, here.location_type, here.data_locations, places[1])
    if rate is None:
        return None
    return (
        f"bucket {source.name} is in {places[0]}, {target.name} in {places[1]}: "
        f"the copy is egress, {price_text(rate, size_bytes)}"
    )


def price_text(rate: EgressRate, size_bytes: int) -> str:
    """The price of a GiB and its source, and the price of so many bytes, as text."""
    if rate.usd_per_gib is None:
        return "no price of that is known"
    source = f"list price of {rate.as_of}" if rate.as_of else "assumed"
    price = f"{rate.usd_per_gib:.2f} USD/GiB ({source})"
    if not size_bytes:
        return price
    usd = rate.usd_per_gib * size_bytes / GIB
    amount = f"{usd:.2f}" if usd >= 0.005 else "less than 0.01"
    return f"{price}, {amount} USD for these bytes"
