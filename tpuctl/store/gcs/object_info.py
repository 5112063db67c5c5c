"""Descriptions of objects and buckets, small enough for a hundred thousand of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from tpuctl.store.crc32c_base64 import decode_crc32c, encode_crc32c

ITEM_FIELDS = "name,size,generation,crc32c,updated"
"""What is asked for of each object."""


class ObjectInfo(NamedTuple):
    """One version of one object."""

    key: str
    size_bytes: int
    generation: int
    crc32c: int | None
    updated: str
    """RFC 3339."""

    @property
    def updated_s(self) -> float:
        """When it was written, in seconds since 1970."""
        # Python 3.10 does not know the Z.
        return datetime.fromisoformat(self.updated.replace("Z", "+00:00")).timestamp()

    @property
    def checksum(self) -> str | None:
        """The CRC-32C in base64, as Cloud Storage spells it."""
        return None if self.crc32c is None else encode_crc32c(self.crc32c)


@dataclass(frozen=True)
class BucketFacts:
    """The settings of a bucket that decide how objects are sent and what that costs."""

    location: str
    storage_class: str
    deletes_are_free: bool
    """Nothing keeps or charges for an object that was deleted at once."""
    location_type: str = "region"
    """region, dual-region or multi-region."""
    data_locations: tuple[str, ...] = ()
    """The regions of a dual-region that its owner chose."""

    @property
    def regions(self) -> frozenset[str]:
        """Where its objects are, as zones spell it: regions, or one multi-region such as `us`."""
        return frozenset(region.lower() for region in self.data_locations or (self.location,))


def object_info_of(item: dict[str, Any]) -> ObjectInfo:
    """The description of an object from its JSON."""
    return ObjectInfo(
        item["name"],
        int(item["size"]),
        int(item["generation"]),
        decode_crc32c(item.get("crc32c")),
        item["updated"],
    )


def bucket_facts(found: dict[str, Any]) -> BucketFacts:
    """The settings of a bucket from its JSON."""
    is_kept = (
        found.get("retentionPolicy")
        or found.get("defaultEventBasedHold")
        or found.get("versioning", {}).get("enabled")
    )
    storage_class = found.get("storageClass", "")
    return BucketFacts(
        found.get("location", ""),
        storage_class,
        storage_class == "STANDARD" and not is_kept,
        found.get("locationType", "region"),
        tuple(found.get("customPlacementConfig", {}).get("dataLocations", ())),
    )
