"""List prices: dated, by region, never guessed."""

import re

import pytest

from tpuctl import catalog


def test_spot_v5e_in_us_west4_is_the_newest_public_figure():
    assert catalog.price("v5litepod-16", "us-west4-a", "spot") == catalog.Price(
        usd_per_chip_hour=0.607,
        usd_per_hour=9.712,
        as_of="2026-08-11",
        region="us-west4",
        source="live billing catalog read (xbill9/gemma4-dev)",
    )


@pytest.mark.parametrize(
    ("type_name", "zone", "provisioning", "usd_per_hour", "as_of"),
    [
        ("v5litepod-16", "us-west4-a", "on-demand", 19.2, "2026-08-09"),
        ("v5litepod-4", "us-central1-a", "on-demand", 4.8, "2025"),
        ("v5litepod-4", "europe-west4-b", "on-demand", 6.24, "2025"),
        ("v5p-8", "us-east5-a", "spot", 6.72, "2025"),
        ("v6e-8", "us-east5-b", "spot", 11.2264, "2026-08"),
        ("v6e-8", "asia-northeast1-b", "on-demand", 25.92, "2025"),
        ("v4-8", "us-central2-b", "on-demand", 12.88, "2025"),
    ],
)
def test_price_of_a_slice(type_name, zone, provisioning, usd_per_hour, as_of):
    price = catalog.price(type_name, zone, provisioning)
    assert (price.usd_per_hour, price.as_of) == (usd_per_hour, as_of)


def test_a_v2_slice_of_several_workers_costs_more_a_chip():
    one = catalog.price("v2-8", "us-central1-b", "on-demand")
    several = catalog.price("v2-32", "us-central1-a", "on-demand")
    assert (one.usd_per_chip_hour, several.usd_per_chip_hour) == (1.125, 1.5)


@pytest.mark.parametrize(
    ("type_name", "zone", "provisioning"),
    [
        ("v5litepod-16", "asia-east1-a", "on-demand"),
        ("v5litepod-16", "us-east4-b", "spot"),
        ("v6e-8", "us-central2-b", "spot"),
        ("v5p-8", "us-east5-a", "reserved"),
        ("v4-8", "moon-1a", "on-demand"),
        ("v4-8", "us-central2-b", "flex-start"),
    ],
)
def test_no_public_figure_is_none(type_name, zone, provisioning):
    assert catalog.price(type_name, zone, provisioning) is None


def test_every_price_says_when_where_and_whence():
    rows = [row for each in catalog.generations() for row in each.prices]
    for row in rows:
        assert re.fullmatch(r"20\d\d(-\d\d(-\d\d)?)?", row.as_of)
        assert row.source
        assert row.provisioning in ("on-demand", "spot", "flex-start", "reserved")


def test_no_price_contradicts_another():
    for each in catalog.generations():
        keys = [(row.provisioning, row.region, row.size) for row in each.prices]
        assert len(keys) == len(set(keys))
        by_place = {(p, r): [k[2] for k in keys if k[:2] == (p, r)] for p, r, _ in keys}
        assert not [place for place, sizes in by_place.items() if "any" in sizes and sizes[1:]]


def test_every_price_is_of_a_region_where_the_generation_is_listed():
    for each in catalog.generations():
        regions = {zone.rpartition("-")[0] for zone in each.zones}
        assert {row.region for row in each.prices} <= regions


def test_price_of_an_unknown_type_is_an_error():
    with pytest.raises(catalog.UnknownError):
        catalog.price("v5litepod-17", "us-west4-a", "spot")
