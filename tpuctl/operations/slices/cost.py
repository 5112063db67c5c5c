"""What slices cost: dated prices, never a guess, as the context in use pays them."""

from __future__ import annotations

import time
from collections.abc import Callable

from tpuctl.catalog import Price
from tpuctl.models.money import current_prices
from tpuctl.models.money.price_book import SECONDS_AN_HOUR, UNLISTED, PriceBook

NO_LIST_PRICE = UNLISTED
__all__ = ["NO_LIST_PRICE", "SECONDS_AN_HOUR", "hourly_price", "price_book", "usd_per_hour"]


def price_book() -> PriceBook:
    """The prices that hold for the context in use."""
    return current_prices.price_book()


def hourly_price(
    accelerator_type: str,
    zone: str,
    provisioning: str,
    now: Callable[[], float] = time.time,
) -> Price | None:
    """The price of a slice now, or None where none is known."""
    return price_book().price_at(accelerator_type, zone, provisioning, now())


def usd_per_hour(accelerator_type: str, zone: str, provisioning: str) -> float | None:
    """USD per hour for a slice now, or None where no price is known."""
    price = hourly_price(accelerator_type, zone, provisioning)
    return price.usd_per_hour if price else None
