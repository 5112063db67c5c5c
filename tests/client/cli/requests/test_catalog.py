"""`tpuctl catalog`: needs no credentials and no network."""

import subprocess
import sys

import pytest


def test_types_of_a_generation(offline):
    rows = offline("catalog", "types", "--generation", "v5e", "-o", "json").json
    assert rows[3] == {
        "name": "v5litepod-16",
        "generation": "v5e",
        "chips": 16,
        "topology": "4x4",
        "workers": 4,
        "chips_per_worker": 4,
    }


def test_types_of_a_zone(offline):
    names = offline("catalog", "types", "--zone", "us-central2-b", "-o", "name").out.split()
    assert "v4-8" in names
    assert "v5litepod-16" not in names


def test_zones_of_a_type(offline):
    rows = offline("catalog", "zones", "-t", "v5litepod-16", "-o", "json").json
    assert "us-west4-a" in [row["zone"] for row in rows]


def test_runtimes_say_which_one_is_chosen(offline):
    rows = offline("catalog", "runtimes", "--generation", "v5e", "-o", "json").json
    assert [row["version"] for row in rows if row["default"]] == ["v2-alpha-tpuv5-lite"]


def test_prices_are_dated_and_sourced(offline):
    rows = offline("catalog", "prices", "-t", "v5litepod-16", "--zone", "us-west4-a", "-o", "json")
    by_kind = {row["provisioning"]: row for row in rows.json}
    assert list(by_kind["spot"]) == [
        "accelerator_type",
        "zone",
        "provisioning",
        "usd_per_hour",
        "usd_per_chip_hour",
        "as_of",
        "source",
    ]
    assert (by_kind["spot"]["usd_per_hour"], by_kind["spot"]["as_of"]) == (9.712, "2026-08-11")
    assert by_kind["flex-start"]["usd_per_hour"] == 9.6


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("types", "--generation", "v9"), "unknown generation 'v9'"),
        (("types", "--zone", "us-west4-z"), "unknown zone 'us-west4-z'"),
        (("zones", "-t", "v5litepod-17"), "unknown accelerator type 'v5litepod-17'"),
    ],
)
def test_bad_input_is_one_line_with_a_way_out(offline, argv, message):
    result = offline("catalog", *argv)
    assert (result.code, result.out) == (2, "")
    error, hint = result.err.splitlines()
    assert message in error
    assert hint.startswith("hint: ")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_stream_is_no_bug(closed):
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m tpuctl catalog types {closed}', sys.executable],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ("v5litepod-16" in done.stdout) == (closed != ">&-")
