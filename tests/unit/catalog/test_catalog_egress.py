"""What it costs to read a bucket from another region, as far as it is known."""

import pytest

from tpuctl.catalog.egress import egress_rate


@pytest.mark.parametrize(
    ("location", "kind", "regions", "reader", "usd_per_gib"),
    [
        ("US-WEST4", "region", (), "us-west4", None),
        ("US-CENTRAL1", "region", (), "us-west4", 0.02),
        ("NORTHAMERICA-NORTHEAST1", "region", (), "us-west4", 0.02),
        ("EUROPE-WEST4", "region", (), "us-west4", 0.05),
        ("ASIA-EAST1", "region", (), "europe-west4", 0.08),
        ("US", "multi-region", (), "us-west4", 0.02),
        ("EU", "multi-region", (), "us-west4", 0.05),
        ("NAM4", "dual-region", (), "us-east1", None),
        ("NAM4", "dual-region", (), "us-west4", 0.02),
        ("US", "dual-region", ("US-WEST4", "US-EAST1"), "us-west4", None),
        ("EUROPE-WEST4", "region", (), "europe-west4", None),
    ],
)
def test_reading_is_free_where_the_bytes_are(location, kind, regions, reader, usd_per_gib):
    rate = egress_rate(location, kind, regions, reader)
    assert (rate and rate.usd_per_gib) == usd_per_gib


def test_a_price_is_dated_or_said_to_be_assumed():
    assert egress_rate("US-EAST1", "region", (), "us-west4").as_of == "2025-01"
    assert egress_rate("EU", "multi-region", (), "us-west4").source.startswith("assumed")


def test_where_no_price_is_known_none_is_made_up():
    rate = egress_rate("AFRICA-SOUTH1", "region", (), "us-west4")
    assert (rate.usd_per_gib, rate.source) == (None, "no public figure at hand")
