"""The part of Cloud Billing that tells list prices: services, and the SKUs of each.

The prices are those of the catalog. Fields: the reference of services.skus.list; descriptions and
the hours that a unit counts: those that SkyPilot's catalog is made from.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from localsim.rules.model.cloud_errors import CloudError, Code, invalid
from localsim.services.other_apis.other_api_calls import BILLING, ApiCall, api_methods
from tpuctl import catalog
from tpuctl.catalog.records import Generation, ListPrice, SkuNaming

TITLES = {"E000-3F24-B8AA": "Cloud TPU", "6F81-5844-456A": "Compute Engine"}
"""The id of each service that has prices of TPUs."""
TIERS = {
    "on-demand": "{} running in {}",
    "spot": "Preemptible {} running in {}",
    "flex-start": "DWS Defined Duration {} running in {}",
    "reserved": "Reserved {} in {}",
}
MOST_LISTED = 5000
NANOS = 1_000_000_000


def _services(_call: ApiCall) -> dict[str, Any]:
    rows = [
        {"name": f"services/{name}", "serviceId": name, "displayName": title}
        for name, title in TITLES.items()
    ]
    return {"services": rows, "nextPageToken": ""}


def _skus(call: ApiCall) -> dict[str, Any]:
    service = call.names["service"]
    if service not in TITLES:
        raise CloudError(Code.NOT_FOUND, f"Service '{service[:128]}' was not found.")
    size = _number(call.query.get("pageSize", ""), "page_size") or MOST_LISTED
    first = _number(call.query.get("pageToken", ""), "page_token")
    rows = _skus_of(service)
    last = first + min(size, MOST_LISTED)
    return {
        "skus": list(rows[first:last]),
        "nextPageToken": str(last) if last < len(rows) else "",
    }


@cache
def _skus_of(service: str) -> tuple[dict[str, Any], ...]:
    return tuple(
        _sku(service, generation, generation.sku, price)
        for generation in catalog.generations()
        if generation.sku is not None and generation.sku.service == service
        for price in _listed(generation)
    )


def _listed(generation: Generation) -> Iterator[ListPrice]:
    """The prices of a generation, each for the sizes that a SKU tells apart."""
    for price in generation.prices:
        if price.provisioning in TIERS:
            is_both = price.size == "any" and generation.sku and generation.sku.pods_apart
            sizes = ("single-worker", "multi-worker") if is_both else (price.size,)
            yield from (replace(price, size=size) for size in sizes)


def _sku(
    service: str, generation: Generation, naming: SkuNaming, price: ListPrice
) -> dict[str, Any]:
    is_pod = naming.pods_apart and price.size == "multi-worker"
    words = f"{naming.words} Pod" if is_pod else naming.words
    description = TIERS[price.provisioning].format(words, price.region)
    sku_id = _id_of(f"{generation.name} {description} {price.size}")
    nanos = round(price.usd_per_chip_hour * naming.chips * NANOS)
    return {
        "name": f"services/{service}/skus/{sku_id}",
        "skuId": sku_id,
        "description": description,
        "category": {
            "serviceDisplayName": TITLES[service],
            "resourceFamily": "Compute",
            "resourceGroup": "TPU",
            "usageType": "OnDemand",
        },
        "serviceRegions": [price.region],
        "pricingInfo": [
            {
                "summary": "",
                "pricingExpression": {
                    "usageUnit": "h",
                    "usageUnitDescription": "hour",
                    "baseUnit": "s",
                    "baseUnitDescription": "second",
                    "baseUnitConversionFactor": 3600,
                    "displayQuantity": 1,
                    "tieredRates": [
                        {
                            "startUsageAmount": 0,
                            "unitPrice": {
                                "currencyCode": "USD",
                                "units": str(nanos // NANOS),
                                "nanos": nanos % NANOS,
                            },
                        }
                    ],
                },
                "currencyConversionRate": 1,
                "effectiveTime": _effective_time(price.as_of),
            }
        ],
        "serviceProviderName": "Google",
        "geoTaxonomy": {"type": "REGIONAL", "regions": [price.region]},
    }


def _id_of(text: str) -> str:
    """An id in Google's form, `D041-B8A1-6E0B`."""
    digits = hashlib.sha256(text.encode()).hexdigest()[:12].upper()
    return "-".join((digits[:4], digits[4:8], digits[8:]))


def _effective_time(as_of: str) -> str:
    """The first moment of a date, or of the month or year of which no more is known."""
    return f"{as_of}{'-01-01'[len(as_of) - 4 :] if len(as_of) < 10 else ''}T00:00:00Z"


def _number(text: str, name: str) -> int:
    if text and not text.isdecimal():
        raise invalid(f"{name} must be a number that services.skus.list has returned.")
    return int(text or 0)


ROWS = api_methods(
    BILLING,
    ("services.list", "GET /v1/services", "", _services),
    ("services.skus.list", "GET /v1/services/{service}/skus", "", _skus),
)
