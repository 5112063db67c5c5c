"""How much quota is left for a job's slices: limits from Service Usage, usage from the lists."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpuctl import catalog
from tpuctl.models.quota_holders import (
    PREEMPTIBLE,
    QuotaDemand,
    holders,
    quota_amount,
    region_of,
    unit_of,
)

if TYPE_CHECKING:
    from tpuctl.api.service_usage import QuotaLimit


@dataclass(frozen=True, slots=True)
class QuotaLeft:
    """What is left of one limit, in its unit."""

    left: int
    limit: int
    unit: str
    each: int
    """What one slice takes."""

    def description(self, slices: int) -> str:
        """`0 of 16 chips left`."""
        wanted = f", {slices * self.each} wanted" if self.left else ""
        return f"{self.left} of {self.limit} {self.unit} left{wanted}"

    def is_enough_for(self, slices: int) -> bool:
        """Whether the quota suffices for so many slices."""
        return self.left >= slices * self.each


QuotaReader = Callable[[Sequence[str], str, str], Mapping[str, QuotaLeft]]
"""(zones, accelerator type, provisioning) -> by zone; raises TransientError and its kin."""


def quota_by_zone(
    limits: "Iterable[QuotaLimit]",
    nodes: Sequence[Any],
    requests: Sequence[Any],
    zones: Sequence[str],
    accelerator_type: str,
    tier: str,
) -> Mapping[str, QuotaLeft]:
    """What is left in each zone; a zone whose limit is not known is missing."""
    try:
        kind = catalog.accelerator_type(accelerator_type)
    except catalog.UnknownError:
        return {}
    naming = catalog.generation(kind.generation).quota
    quota = f"{naming.stem}{naming.family}{naming.suffix(kind.size)}".lower() if naming else ""
    key = (quota, tier in PREEMPTIBLE)
    ours = [limit for limit in limits if (limit.quota, limit.is_preemptible) == key]
    each, unit = quota_amount(accelerator_type), unit_of(accelerator_type)
    left: dict[str, QuotaLeft] = {}
    for zone in zones:
        wanted = QuotaDemand(accelerator_type, zone, tier)
        for limit in ours:
            most = limit.of(zone)
            if most is None:
                continue
            place = zone if limit.scope == "zone" else region_of(zone)
            used = sum(held.amount for held in holders(nodes, requests, wanted, location=place))
            here = QuotaLeft(max(0, most - used), most, unit, each)
            left[zone] = min(left.get(zone, here), here, key=lambda quota_left: quota_left.left)
    return left
