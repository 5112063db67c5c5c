"""How a job looks for capacity: what it may ask for, in which order, and its requests."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum


class SearchOrder(StrEnum):
    """What decides first which slice a job asks for."""

    LISTED = "listed"
    """The accelerator types as the job file lists them."""
    PRICE = "price"


@dataclass(frozen=True, slots=True)
class Search:
    """How a job looks for capacity; by default it asks one zone after the other."""

    at_once: int = 1
    """How many requests for its slices there are at most at the same time."""
    max_usd_per_hour: float | None = None
    """What all requests that there are may cost together if all of them become ACTIVE."""
    patience_s: float = 600.0
    """How long a zone may let a request wait while another one could be asked."""
    order: SearchOrder = SearchOrder.LISTED


@dataclass(frozen=True, slots=True)
class Place:
    """A zone and an accelerator type that a job may ask for there."""

    zone: str
    accelerator_type: str
    usd_per_hour: float | None = None
    """The price of all slices of the job together; None: no list price is known."""
    distance: int = 0
    """From the bucket: 0 the same region (or not known), 1 the same continent, 2 farther away."""

    @property
    def key(self) -> tuple[str, str]:
        """The zone and the accelerator type."""
        return self.zone, self.accelerator_type


@dataclass(frozen=True, slots=True)
class Candidate:
    """A request for an attempt's slice beside the one that leads; its node has the same name."""

    name: str
    zone: str
    accelerator_type: str
    request_id: str | None = None
    requested_s: float | None = None
    accepted_s: float | None = None
    active_s: float | None = None
    """When it was first seen ACTIVE: from then on it is paid for, until it is deleted."""
    withdrawn_s: float | None = None
    """Since when the job does not want it any more; None: it may still be chosen."""
    deleted_s: float | None = None
    is_stockout: bool = False
    """It was withdrawn because its zone has no such slice now."""
    refusal: str = ""
    """For one that will never be granted: the kind of the error, as tpuctl.errors names it."""
    reason: str = ""
    """Why it was withdrawn."""

    @property
    def key(self) -> tuple[str, str]:
        """The zone and the accelerator type."""
        return self.zone, self.accelerator_type

    @property
    def is_open(self) -> bool:
        """Whether it may still be chosen."""
        return self.withdrawn_s is None

    @property
    def billed_s(self) -> float | None:
        """For how long it was paid for though nothing ran on it; None: it still is."""
        if self.active_s is None:
            return 0.0
        return None if self.deleted_s is None else max(0.0, self.deleted_s - self.active_s)


def distance(zone: str, regions: Collection[str]) -> int:
    """How far a zone is from the bucket's regions, as `Place.distance` counts it."""
    region = zone.rpartition("-")[0]
    if not regions or region in regions:
        return 0
    return 1 if _continent(region) in {_continent(other) for other in regions} else 2


def _continent(region: str) -> str:
    """`europe` of `europe-west4` and of the multi-region `eu`, `us` of all of North America."""
    name = region.partition("-")[0]
    return {"eu": "europe", "northamerica": "us"}.get(name, name)
