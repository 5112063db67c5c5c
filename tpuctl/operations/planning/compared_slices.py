"""The slices that a plan compares, each in its zone with what it costs there."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tpuctl import catalog
from tpuctl.catalog import AcceleratorType, Price
from tpuctl.errors import NotFoundError
from tpuctl.models.money.price_book import PriceBook
from tpuctl.models.node import Provisioning
from tpuctl.models.planning.plan_spec import SliceChoice

LARGEST_RUN_CHIPS, LARGEST_RUN_SLICES = 50_944, 199
"""Of the largest training run on Cloud TPU that is public: v5e (Google Cloud, November 2023)."""
PUBLISHED_SLICES = 32
"""The most slices of a published step that the model is fitted to (docs/accuracy.md)."""
MANY_SLICES = 1000
"""Slices that no project has at once for one service."""


@dataclass(frozen=True, slots=True)
class ComparedSlice:
    """Slices of one type in a zone, and the price of one of them by how it is obtained."""

    kind: AcceleratorType
    zone: str | None
    """None where no zone of the Cloud TPU API has the type."""
    slices: int
    on_demand: Price | None
    spot: Price | None
    reserved: Price | None

    @property
    def chips(self) -> int:
        """Chips of all slices."""
        return self.kind.chips * self.slices

    @property
    def text(self) -> str:
        """`v5litepod-256`, or `4 x v5litepod-256`."""
        return self.kind.name if self.slices == 1 else f"{self.slices} x {self.kind.name}"


def run_warning(compared: Iterable[ComparedSlice]) -> str:
    """What is doubtful about one run on so many slices at once; empty for nothing."""
    largest = max(compared, key=lambda each: each.chips)
    counted = f"{largest.slices:,} x {largest.kind.name} are {largest.chips:,} chips in one run"
    if largest.chips > LARGEST_RUN_CHIPS or largest.slices > LARGEST_RUN_SLICES:
        return (
            f"{counted}: the largest that is public had {LARGEST_RUN_CHIPS:,} in "
            f"{LARGEST_RUN_SLICES} slices; ask for capacity before you count on more"
        )
    if largest.slices > PUBLISHED_SLICES:
        return (
            f"{counted}: published steps have at most {PUBLISHED_SLICES} slices, and times of more "
            "are extrapolated"
        )
    return ""


def service_warning(where: ComparedSlice, slices: int) -> str:
    """What is doubtful about a service on so many slices of a type; empty for nothing."""
    chips = where.chips * slices
    if slices <= MANY_SLICES and chips <= LARGEST_RUN_CHIPS:
        return ""
    return (
        f"{slices:,} x {where.kind.name} are {chips:,} chips at once: ask for capacity before you "
        "count on them"
    )


def compared_slices(choice: SliceChoice, book: PriceBook, now_s: float) -> list[ComparedSlice]:
    """The slices that a person chose, by generation and size; raises NotFoundError for none."""
    found = offered_slices(choice, book, now_s)
    if not found:
        place = f"in {choice.zone}" if choice.zone else "in any zone"
        raise NotFoundError(
            f"no slice with a known price is {place}", hint="run: tpuctl catalog prices"
        )
    return found


def offered_slices(choice: SliceChoice, book: PriceBook, now_s: float) -> list[ComparedSlice]:
    """As `compared_slices`; an empty list for none.

    Without a type those of a power of two chips are compared, as v5p alone has 94 types; without a
    generation too, those with a price.
    """
    found = [
        ComparedSlice(kind, zone, choice.num_slices, *_prices(kind, zone, book, now_s))
        for kind in _kinds(choice)
        for zone in (_zone(kind, choice, book, now_s),)
    ]
    if not (choice.types or choice.generations):
        return [each for each in found if each.on_demand or each.spot]
    return found


def _kinds(choice: SliceChoice) -> Iterator[AcceleratorType]:
    """The types that are compared, in the order of their chips within a generation."""
    if choice.types:
        yield from (catalog.accelerator_type(name) for name in choice.types)
        return
    for generation in catalog.generations():
        is_wanted = (
            generation.name in choice.generations
            if choice.generations
            else generation.api_creatable
        )
        kinds = generation.types if is_wanted else ()
        for kind in sorted(kinds, key=lambda each: each.chips):
            is_offered = choice.zone is None or choice.zone in generation.zones_for(kind)
            if is_offered and kind.chips.bit_count() == 1:
                yield kind


def _zone(kind: AcceleratorType, choice: SliceChoice, book: PriceBook, now_s: float) -> str | None:
    """The zone that was asked for, else the one where the type is cheapest."""
    if choice.zone is not None:
        return choice.zone
    zones = list(_zone_of_each_region(catalog.zones_of(kind.name)))
    order = (Provisioning.ON_DEMAND, Provisioning.SPOT)
    for tier in order[::-1] if choice.is_spot else order:
        prices = {zone: book.price_at(kind.name, zone, tier, now_s) for zone in zones}
        priced = {zone: price.usd_per_hour for zone, price in prices.items() if price}
        if priced:
            return min(priced, key=lambda zone: (priced[zone], zones.index(zone)))
    return zones[0] if zones else None


def _zone_of_each_region(zones: Iterable[str]) -> Iterator[str]:
    """The first zone of each region: prices are those of regions."""
    seen = set()
    for zone in zones:
        region = zone.rpartition("-")[0]
        if region not in seen:
            seen.add(region)
            yield zone


def _prices(
    kind: AcceleratorType, zone: str | None, book: PriceBook, now_s: float
) -> tuple[Price | None, Price | None, Price | None]:
    """On demand, spot and reserved; a reservation is what the context pays, else the list's."""
    if zone is None:
        return None, None, None
    on_demand, spot, reserved = (
        book.price_at(kind.name, zone, tier, now_s)
        for tier in (Provisioning.ON_DEMAND, Provisioning.SPOT, Provisioning.RESERVED)
    )
    return on_demand, spot, reserved or catalog.price(kind.name, zone, Provisioning.RESERVED)
