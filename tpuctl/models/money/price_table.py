"""Reads a table of prices: our own form, or the list of SKUs of Google's Cloud Billing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tpuctl import catalog
from tpuctl.models.money.price_book import DatedPrice
from tpuctl.models.node import Provisioning

SIZES = ("any", "single-worker", "multi-worker")
TIERS = (Provisioning.ON_DEMAND, Provisioning.SPOT, Provisioning.FLEX_START)
NANOS = 1e9
MOST_USD = 1000.0
"""For a chip and hour: more than that is a mistake of units."""
SKU_SOURCE = "Cloud Billing, SKU {}"


class PriceTableError(ValueError):
    """What is wrong with a table, in words that follow its name."""


def read_table(document: Any) -> tuple[DatedPrice, ...]:
    """The prices of a table; raises PriceTableError.

    Our own form is `{valid_from, source, prices: [{generation, provisioning, region, size,
    usd_per_chip_hour}]}`, Google's an answer of services.skus.list, or a list of such answers.
    """
    pages: list[Any] = document if isinstance(document, list) else [document]
    if not pages or not all(isinstance(page, Mapping) for page in pages):
        raise PriceTableError("is not a table of prices")
    if any("skus" in page or "skuId" in page for page in pages):
        rows = tuple(_sku_rows(pages))
        if not rows:
            raise PriceTableError("has no price of a TPU that this version knows")
        return rows
    return tuple(row for page in pages for row in _own_rows(page))


def own_form(rows: Sequence[DatedPrice]) -> dict[str, Any]:
    """The document that `read_table` makes the same rows of."""
    return {
        "schema": 1,
        "prices": [
            {
                "generation": row.generation,
                "provisioning": str(row.provisioning),
                "region": row.region,
                "size": row.size,
                "usd_per_chip_hour": row.usd_per_chip_hour,
                "valid_from": _text_of(row.valid_from_s),
                "source": row.source,
            }
            for row in rows
        ],
    }


def _own_rows(page: Mapping[str, Any]) -> Iterator[DatedPrice]:
    prices = page.get("prices")
    if not isinstance(prices, list) or not prices:
        raise PriceTableError("has no list `prices`")
    for number, row in enumerate(prices):
        if not isinstance(row, Mapping):
            raise PriceTableError(f"prices[{number}] is not a mapping")
        yield _own_row({**page, **row}, f"prices[{number}]")


def _own_row(row: Mapping[str, Any], place: str) -> DatedPrice:
    generation = str(row.get("generation", ""))
    try:
        catalog.generation(generation)
    except catalog.UnknownError:
        raise PriceTableError(f"{place}: {generation!r} is not a generation") from None
    tier, size = str(row.get("provisioning", "")), str(row.get("size", "any"))
    if tier not in TIERS:
        raise PriceTableError(f"{place}: provisioning must be {', '.join(TIERS)}, not {tier!r}")
    if size not in SIZES:
        raise PriceTableError(f"{place}: size must be {', '.join(SIZES)}, not {size!r}")
    region = str(row.get("region", ""))
    if not region:
        raise PriceTableError(f"{place} has no region")
    moment_s = _moment_s(row.get("valid_from"), place)
    return DatedPrice(
        generation,
        tier,
        region,
        size,
        _usd(row.get("usd_per_chip_hour"), place),
        moment_s,
        _text_of(moment_s)[:10],
        str(row.get("source", "")),
    )


def _sku_rows(pages: Sequence[Mapping[str, Any]]) -> Iterator[DatedPrice]:
    """The prices of chips among SKUs; of two for the same thing the first by its id."""
    skus = [sku for page in pages for sku in (page.get("skus", []) if "skus" in page else [page])]
    seen = set()
    for sku in sorted(skus, key=lambda each: str(each.get("skuId", ""))):
        for row in _rows_of_sku(sku):
            key = (*row[:4], row.valid_from_s)
            if key not in seen:
                seen.add(key)
                yield row


def _rows_of_sku(sku: Mapping[str, Any]) -> Iterator[DatedPrice]:
    """The prices of one SKU: a row for each region and each moment at which the price changed.

    Which description means what: the descriptions that SkyPilot's catalog is made from. A SKU of
    preemptible TPUs has the usage type OnDemand there, so that the description decides.
    """
    description = str(sku.get("description", ""))
    tier = _tier(description, str(sku.get("category", {}).get("usageType", "")))
    for generation in catalog.generations() if tier else ():
        naming = generation.sku
        if naming is None or naming.words.lower() not in description.lower():
            continue
        size = "any"
        if naming.pods_apart:
            size = "multi-worker" if "pod" in description.lower() else "single-worker"
        for valid_from_s, usd in _timeline(sku):
            for region in sku.get("serviceRegions", []):
                yield DatedPrice(
                    generation.name,
                    str(tier),
                    str(region),
                    size,
                    round(usd / naming.chips, 9),
                    valid_from_s,
                    _text_of(valid_from_s)[:10],
                    SKU_SOURCE.format(sku.get("skuId", "")),
                )


_WORDS: Sequence[tuple[str, str]] = (
    ("reserv", ""),
    ("commit", ""),
    ("calendar", ""),
    ("dws", Provisioning.FLEX_START),
    ("flex", Provisioning.FLEX_START),
    ("preemptible", Provisioning.SPOT),
    ("spot", Provisioning.SPOT),
)
"""A word of a description -> the provisioning; an empty one is left out: it needs a contract."""


def _tier(description: str, usage_type: str) -> str:
    text = f"{description} {usage_type}".lower()
    return next((tier for word, tier in _WORDS if word in text), Provisioning.ON_DEMAND)


def _timeline(sku: Mapping[str, Any]) -> Iterator[tuple[float, float]]:
    """Since when each price of a SKU holds, and USD of one unit in an hour."""
    name = f"SKU {sku.get('skuId', '')}"
    try:
        for info in sku["pricingInfo"]:
            expression = info["pricingExpression"]
            if expression.get("usageUnit", "h") != "h":
                continue
            price = expression["tieredRates"][-1]["unitPrice"]
            if price.get("currencyCode", "USD") != "USD":
                raise PriceTableError(f"{name} is in {price['currencyCode']}, not in USD")
            usd = int(price.get("units", 0)) + int(price.get("nanos", 0)) / NANOS
            yield _moment_s(info["effectiveTime"], name), _usd(usd, name)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise PriceTableError(f"{name} has no pricing that can be read") from error


def _usd(value: object, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MOST_USD:
        raise PriceTableError(f"{place}: {value!r} is not a price in USD of a chip and hour")
    return float(value)


def _moment_s(value: object, place: str) -> float:
    """Seconds since 1970 of a date or an RFC 3339 time."""
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise PriceTableError(f"{place}: valid_from {value!r} is not a date") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _text_of(moment_s: float) -> str:
    return datetime.fromtimestamp(moment_s, UTC).isoformat().replace("+00:00", "Z")
