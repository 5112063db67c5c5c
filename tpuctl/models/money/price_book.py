"""Dated prices of slices: the list of the catalog, newer tables, and a discount on both."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tpuctl import catalog
from tpuctl.catalog import AcceleratorType, Price
from tpuctl.models.node import Provisioning

ALWAYS_S = float("-inf")
"""From when on a price of the catalog holds: it says when it was read, not since when it holds."""
UNLISTED = frozenset({Provisioning.RESERVED, Provisioning.BEST_EFFORT, Provisioning.UNKNOWN})
"""How capacity is obtained that has no list price."""
SECONDS_AN_HOUR = 3600.0


class DatedPrice(NamedTuple):
    """The price of one chip of a generation in a region, from a moment on."""

    generation: str
    provisioning: str
    region: str
    size: str
    """any, single-worker or multi-worker."""
    usd_per_chip_hour: float
    valid_from_s: float
    """In seconds since 1970."""
    as_of: str
    """The date for people."""
    source: str


class PricedSpan(NamedTuple):
    """A part of an interval in which one price holds; None: no price is known."""

    begin_s: float
    end_s: float
    usd_per_hour: float | None


_Timeline = tuple[tuple[float, ...], tuple[Price, ...]]
"""Since when each of the prices holds, and the prices."""


@dataclass(slots=True)
class PriceBook:
    """What a slice costs at a moment: the newest price that is valid then, times the factor."""

    newer: tuple[DatedPrice, ...] = ()
    """Prices beside those of the catalog."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """Provisioning -> what is paid of the list price; `""` for every other one."""
    _timelines: dict[tuple[str, str, str], _Timeline] = field(default_factory=dict)

    def price_at(
        self, accelerator_type: str, zone: str, provisioning: str, moment_s: float
    ) -> Price | None:
        """The price of a slice at a moment, in seconds since 1970; None where none is known.

        Before the first price there is, that one holds.
        """
        since, prices = self._timeline(accelerator_type, zone, provisioning)
        return prices[max(0, bisect_right(since, moment_s) - 1)] if prices else None

    def spans(
        self, accelerator_type: str, zone: str, provisioning: str, begin_s: float, end_s: float
    ) -> Iterator[PricedSpan]:
        """The parts of an interval, cut where the price changes."""
        since, prices = self._timeline(accelerator_type, zone, provisioning)
        cuts = [begin_s, *(each for each in since[1:] if begin_s < each < end_s), end_s]
        for first_s, last_s in zip(cuts, cuts[1:], strict=False):
            price = prices[max(0, bisect_right(since, first_s) - 1)] if prices else None
            yield PricedSpan(first_s, last_s, price.usd_per_hour if price else None)

    def factor(self, provisioning: str) -> float | None:
        """What is paid of the list price; None where the context does not say."""
        return self.factors.get(str(provisioning), self.factors.get(""))

    def _timeline(self, accelerator_type: str, zone: str, provisioning: str) -> _Timeline:
        key = (accelerator_type, zone, str(provisioning))
        found = self._timelines.get(key)
        if found is None:
            found = self._timelines[key] = self._made_timeline(*key)
        return found

    def _made_timeline(self, accelerator_type: str, zone: str, provisioning: str) -> _Timeline:
        try:
            kind = catalog.accelerator_type(accelerator_type)
        except catalog.UnknownError:
            return (), ()
        factor, tier = self.factor(provisioning), provisioning
        if provisioning in UNLISTED:
            # A share of the price on demand, where the context says which; else nothing is known.
            factor, tier = self.factors.get(provisioning), Provisioning.ON_DEMAND
            if factor is None:
                return (), ()
        factor = 1.0 if factor is None else factor
        listed = dict(sorted(self._listed(kind, zone, tier), key=lambda row: row[0]))
        return tuple(listed), tuple(_discounted(price, factor) for price in listed.values())

    def _listed(
        self, kind: AcceleratorType, zone: str, provisioning: str
    ) -> Iterator[tuple[float, Price]]:
        """Since when each list price holds; of the same moment the last one counts."""
        region = zone.rpartition("-")[0]
        if price := catalog.price(kind.name, zone, provisioning):
            yield ALWAYS_S, price
        for row in self.newer:
            if row[:3] == (kind.generation, provisioning, region) and row.size in (
                "any",
                kind.size,
            ):
                usd = round(row.usd_per_chip_hour * kind.chips, 6)
                yield (
                    row.valid_from_s,
                    Price(row.usd_per_chip_hour, usd, row.as_of, region, row.source),
                )


def parse_factors(text: str) -> dict[str, float]:
    """The factors of `on-demand=0.45,spot=0.9`, or one number for all; raises ValueError."""
    if not text.strip():
        return {}
    factors = {}
    for part in text.split(","):
        name, equals, number = part.strip().rpartition("=")
        if equals and name not in FACTOR_NAMES:
            raise ValueError(f"{name!r} is not one of {', '.join(FACTOR_NAMES)}")
        factors[name] = _factor(number)
    return factors


def factors_text(factors: Mapping[str, float]) -> str:
    """The text that `parse_factors` reads."""
    return ",".join(f"{name}={each:g}" if name else f"{each:g}" for name, each in factors.items())


FACTOR_NAMES = tuple(each.value for each in Provisioning if each != Provisioning.UNKNOWN)
MOST_FACTOR = 10.0


def _factor(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    if not 0.0 < number <= MOST_FACTOR:
        raise ValueError(f"a factor must be above 0 and at most {MOST_FACTOR:g}, not {text}")
    return number


def _discounted(price: Price, factor: float) -> Price:
    if factor == 1.0:
        return price
    return Price(
        round(price.usd_per_chip_hour * factor, 9),
        round(price.usd_per_hour * factor, 9),
        price.as_of,
        price.region,
        f"{price.source}, times {factor:g}",
    )
