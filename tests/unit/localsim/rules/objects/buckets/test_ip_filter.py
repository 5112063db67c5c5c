"""IP filters: which addresses they admit, and which of them are refused."""

import pytest

from localsim.rules.objects.bucket_settings.ip_filter import (
    check_address,
    checked_ip_filter,
    summarized_filter,
)
from unit.localsim.rules.objects.object_rig import refusal, refusal_code

VPC = {
    "network": "projects/p/global/networks/default",
    "allowedIpCidrRanges": ["10.0.0.0/8", "fd00::/8"],
}
FILTER = {
    "mode": "Enabled",
    "publicNetworkSource": {"allowedIpCidrRanges": ["127.0.0.1/32"]},
    "vpcNetworkSources": [VPC],
    "allowAllServiceAgentAccess": True,
}
REFUSED = (
    403,
    "forbidden",
    "There is an IP filtering condition that is preventing access to the resource.",
)


def test_a_filter_is_kept_as_it_came():
    assert checked_ip_filter(FILTER) == FILTER
    assert [checked_ip_filter(value) for value in (None, {})] == [None, None]


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1", "10.1.2.3", "fd00::1%eth0"])
def test_an_address_within_a_range_is_let_in(address):
    check_address({"ipFilter": FILTER}, address)


@pytest.mark.parametrize("address", ["127.0.0.2", "::1", "192.0.2.1", "nobody", ""])
def test_another_one_is_refused(address):
    assert refusal(check_address, {"ipFilter": FILTER}, address) == REFUSED


def test_without_a_range_nobody_is_let_in():
    assert refusal(check_address, {"ipFilter": {"mode": "Enabled"}}, "127.0.0.1") == REFUSED


def test_a_filter_that_is_off_lets_everybody_in():
    check_address({"ipFilter": {**FILTER, "mode": "Disabled"}}, "192.0.2.1")
    check_address({}, "192.0.2.1")


def test_a_list_shows_a_filter_without_its_ranges():
    shown = summarized_filter({"ipFilter": FILTER, "labels": {"a": "b"}})
    assert shown["ipFilter"] == {"mode": "Enabled", "allowAllServiceAgentAccess": True}
    assert shown["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    "change",
    [
        {"mode": "On"},
        {"mode": None},
        {"publicNetworkSource": {"allowedIpCidrRanges": ["127.0.0.1/8"]}},
        {"publicNetworkSource": {"allowedIpCidrRanges": ["here"]}},
        {"publicNetworkSource": {"allowedIpCidrRanges": "127.0.0.1/32"}},
        {"publicNetworkSource": 5},
        {"vpcNetworkSources": [{**VPC, "network": "default"}]},
        {"vpcNetworkSources": [{"allowedIpCidrRanges": []}]},
        {"vpcNetworkSources": VPC},
        {"allowAllServiceAgentAccess": "yes"},
        {"publicNetworkSource": {"allowedIpCidrRanges": ["10.0.0.0/8"] * 201}},
    ],
)
def test_a_filter_that_does_not_read_is_refused(change):
    assert refusal_code(checked_ip_filter, {**FILTER, **change}) == 400
