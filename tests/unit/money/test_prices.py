"""Tables of prices: checked before they are kept, dated, and times what a context pays."""

import json

import pytest

from localsim.services.other_apis import cloud_billing_skus
from tpuctl import catalog
from tpuctl.errors import DamagedStateError, UsageError
from tpuctl.models.money.price_book import DatedPrice, PriceBook, factors_text, parse_factors
from tpuctl.models.money.price_table import PriceTableError, own_form, read_table
from tpuctl.operations.cost.price_tables import add_table, load_book
from unit.money.histories import MONTH_S

ROW = {
    "generation": "v5e",
    "provisioning": "spot",
    "region": "us-west4",
    "usd_per_chip_hour": 0.5,
    "valid_from": "2026-11-02",
}
SKU = {
    "skuId": "D041-B8A1-6E0B",
    "description": "Preemptible TpuV5e running in Las Vegas",
    "category": {"usageType": "OnDemand"},
    "serviceRegions": ["us-west4"],
    "pricingInfo": [
        {
            "effectiveTime": "2026-11-01T00:00:00Z",
            "pricingExpression": {
                "usageUnit": "h",
                "tieredRates": [{"unitPrice": {"units": "0", "nanos": 607000000}}],
            },
        },
        {
            "effectiveTime": "2026-11-02T00:00:00Z",
            "pricingExpression": {
                "usageUnit": "h",
                "tieredRates": [{"unitPrice": {"units": "0", "nanos": 500000000}}],
            },
        },
    ],
}
SIZES = ("single-worker", "multi-worker")
SPOT = ("v5litepod-16", "us-west4-a", "spot")


def no_bucket(url):
    raise AssertionError(url)


def test_the_newest_price_that_is_valid_counts():
    book = PriceBook(read_table({"prices": [ROW]}))
    day_s = 86400.0
    assert book.price_at(*SPOT, MONTH_S).usd_per_hour == 9.712
    assert book.price_at(*SPOT, MONTH_S + day_s).usd_per_hour == 8.0
    spans = list(book.spans(*SPOT, MONTH_S, MONTH_S + 2 * day_s))
    assert [(span.usd_per_hour, span.end_s - span.begin_s) for span in spans] == [
        (9.712, day_s),
        (8.0, day_s),
    ]


def test_a_table_of_ours_is_kept_and_read_again(tmp_path):
    source = tmp_path / "prices.yaml"
    source.write_text(
        "valid_from: 2026-11-02\nsource: our contract\nprices:\n"
        "- {generation: v5e, provisioning: spot, region: us-west4, usd_per_chip_hour: 0.5}\n"
    )
    kept = add_table(tmp_path, str(source), no_bucket)
    assert (kept.prices, kept.newest, kept.path.parent.name) == (1, "2026-11-02", "prices")
    price = load_book(tmp_path, None).price_at(*SPOT, MONTH_S + 90000)
    assert (price.usd_per_hour, price.as_of, price.source) == (8.0, "2026-11-02", "our contract")
    assert load_book(tmp_path, "spot=0.9").price_at(*SPOT, MONTH_S + 90000).usd_per_hour == 7.2


def test_googles_list_of_skus_is_a_table(tmp_path):
    reserved = {**SKU, "skuId": "1", "description": "Reserved TpuV5e in Las Vegas"}
    other = {**SKU, "skuId": "2", "description": "N1 Predefined Instance Core"}
    url = "gs://b/skus.json"
    add_table(tmp_path, url, lambda _: json.dumps({"skus": [reserved, SKU, other]}).encode())
    book = load_book(tmp_path, None)
    assert [book.price_at(*SPOT, MONTH_S + s).usd_per_chip_hour for s in (0, 90000)] == [0.607, 0.5]
    (first, second) = read_table({"skus": [SKU]})
    assert first.source == "Cloud Billing, SKU D041-B8A1-6E0B"
    assert read_table(own_form([first, second])) == (first, second)


def test_a_unit_of_older_generations_is_an_hour_of_four_chips():
    older = {**SKU, "description": "Tpu-v2 Pod running in Iowa", "serviceRegions": ["us-central1"]}
    (row, _) = read_table({"skus": [older]})
    assert row[:5] == ("v2", "on-demand", "us-central1", "multi-worker", 0.15175)


def test_the_list_that_the_simulator_serves_says_what_the_catalog_says():
    pages = [
        {"skus": list(cloud_billing_skus._skus_of(each))} for each in cloud_billing_skus.TITLES
    ]
    listed = {row[:4]: row.usd_per_chip_hour for row in read_table(pages)}
    known = {
        (each.name, price.provisioning, price.region, size): price.usd_per_chip_hour
        for each in catalog.generations()
        if each.sku is not None
        for price in each.prices
        for size in (SIZES if each.sku.pods_apart and price.size == "any" else [price.size])
        if price.provisioning != "reserved"
    }
    assert listed == known


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (3, "is not a table of prices"),
        ([], "is not a table of prices"),
        ({}, "has no list `prices`"),
        ({"prices": [3]}, "prices[0] is not a mapping"),
        ({"prices": [{**ROW, "generation": "v99"}]}, "prices[0]: 'v99' is not a generation"),
        (
            {"prices": [{**ROW, "provisioning": "cheap"}]},
            "prices[0]: provisioning must be on-demand, spot, flex-start, not 'cheap'",
        ),
        ({"prices": [{**ROW, "region": ""}]}, "prices[0] has no region"),
        (
            {"prices": [{**ROW, "usd_per_chip_hour": -1}]},
            "prices[0]: -1 is not a price in USD of a chip and hour",
        ),
        ({"prices": [{**ROW, "valid_from": "soon"}]}, "prices[0]: valid_from 'soon' is not a date"),
        ({"skus": []}, "has no price of a TPU that this version knows"),
        ({"skus": [{**SKU, "pricingInfo": [{}]}]},
         "SKU D041-B8A1-6E0B has no pricing that can be read"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_table_is_one_line(document, message):
    with pytest.raises(PriceTableError) as refused:
        read_table(document)
    assert str(refused.value) == message


def test_a_bad_file_changes_nothing(tmp_path):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps({"prices": [ROW]}))
    bad.write_text('{"prices": ')
    add_table(tmp_path, str(good), no_bucket)
    with pytest.raises(UsageError, match=r"bad\.json is not JSON: Expecting value"):
        add_table(tmp_path, str(bad), no_bucket)
    assert len(load_book(tmp_path, None).newer) == 1
    (tmp_path / "prices" / "torn.json").write_text("{")
    with pytest.raises(DamagedStateError, match="a table of prices in .* cannot be read"):
        load_book(tmp_path, None)


def test_factors_are_for_each_provisioning_or_for_all():
    assert parse_factors("on-demand=0.45, spot=0.9") == {"on-demand": 0.45, "spot": 0.9}
    assert parse_factors("0.8") == {"": 0.8}
    assert factors_text(parse_factors("spot=0.9,0.8")) == "spot=0.9,0.8"
    book = PriceBook(factors={"": 0.5, "reserved": 0.7})
    assert book.price_at("v5litepod-16", "us-west4-a", "spot", 0).usd_per_hour == 4.856
    # A reserved slice costs a share of the price on demand, where the context says which.
    assert book.price_at("v5litepod-16", "us-west4-a", "reserved", 0).usd_per_hour == 13.44
    assert PriceBook().price_at("v5litepod-16", "us-west4-a", "reserved", 0) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cheap=1", "'cheap' is not one of on-demand, spot, reserved, best-effort, flex-start"),
        ("spot=free", "'free' is not a number"),
        ("0", "a factor must be above 0 and at most 10, not 0"),
    ],
)
def test_a_factor_that_is_none_is_refused(text, message):
    with pytest.raises(ValueError) as refused:  # noqa: PT011 (the whole message is compared)
        parse_factors(text)
    assert str(refused.value) == message


def test_of_two_prices_for_the_same_moment_the_one_added_last_counts():
    rows = [
        DatedPrice("v5e", "spot", "us-west4", "any", usd, MONTH_S, "2026-11-01", "")
        for usd in (0.5, 0.4)
    ]
    assert PriceBook(tuple(rows)).price_at(*SPOT, MONTH_S).usd_per_chip_hour == 0.4
