"""What slices cost: dated list prices, never a guess."""

from functools import cache

from tpuctl import catalog
from tpuctl.models.node import Provisioning

SECONDS_AN_HOUR = 3600.0
NO_LIST_PRICE = frozenset({Provisioning.RESERVED, Provisioning.BEST_EFFORT, Provisioning.UNKNOWN})


@cache
def hourly_price(accelerator_type: str, zone: str, provisioning: str) -> catalog.Price | None:
    """The public list price of a slice, or None where none is known."""
    if provisioning in NO_LIST_PRICE:
        return None
    try:
        return catalog.price(accelerator_type, zone, provisioning)
    except catalog.UnknownError:
        return None


def usd_per_hour(accelerator_type: str, zone: str, provisioning: str) -> float | None:
    """USD per hour for a slice, or None where no public price is known."""
    price = hourly_price(accelerator_type, zone, provisioning)
    return price.usd_per_hour if price else None
