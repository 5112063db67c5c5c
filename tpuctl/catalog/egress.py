"""The dated list prices of reading a bucket from another region; none where unknown."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_DATA = Path(__file__).with_name("data") / "egress.json"
MULTI_REGION = "multi-region"


@dataclass(frozen=True, slots=True)
class EgressRate:
    """The price of a GiB between two continents; `as_of` is None where the figure is assumed."""

    usd_per_gib: float | None
    as_of: str | None
    source: str


UNKNOWN_RATE = EgressRate(None, None, "no public figure at hand")


def egress_rate(
    location: str, kind: str, regions: Sequence[str], reader_region: str
) -> EgressRate | None:
    """What a reader in a region pays for a bucket's bytes; None where they are free.

    `location` and `kind` (region, dual-region, multi-region) as the bucket's metadata has them,
    `regions` the two of a dual-region that was put together by its owner.
    """
    place = location.lower()
    places = [each.lower() for each in regions] or _read()["dual_regions"].get(place, [place])
    if kind != MULTI_REGION and reader_region in places:
        return None
    known: dict[frozenset[str], EgressRate] = _read()["rates"]
    pairs = [frozenset((_continent(each), _continent(reader_region))) for each in places]
    rates = [known.get(pair, UNKNOWN_RATE) for pair in pairs]
    return min(rates, key=lambda rate: rate.usd_per_gib or float("inf"))


def _continent(place: str) -> str:
    """The continent of a region or a multi-region; the place itself where it is not known."""
    found: dict[str, str] = _read()["continents"]
    return found.get(place.partition("-")[0], place)


@cache
def _read() -> dict[str, Any]:
    raw: dict[str, Any] = json.loads(_DATA.read_text("utf-8"))
    rates = {frozenset(row.pop("between")): EgressRate(**row) for row in raw["rates"]}
    return {**raw, "rates": rates}
