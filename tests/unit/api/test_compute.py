"""What Compute Engine tells of a region's external addresses, and what follows from it."""

import pytest

from tpuctl.api.compute import AddressQuota, address_quota
from tpuctl.api.tpu.hints import NODE, CallSubject
from tpuctl.api.tpu.rest import Reply
from tpuctl.errors import TransientError

ABOUT = CallSubject("create node 'n1'", NODE, "n1", "us-west4-a", "demo")


class Answer:
    """An API that answers everything with one document."""

    def __init__(self, document, status=200):
        self.reply = Reply(status, document)

    def request(self, method, path):
        assert (method, path) == ("GET", "/compute/v1/projects/demo/regions/us-west4")
        return self.reply


def test_the_quota_of_a_region_is_one_of_many_metrics():
    cpus = {"metric": "CPUS", "limit": 24.0, "usage": 4.0}
    addresses = {"metric": "IN_USE_ADDRESSES", "limit": 8.0, "usage": 3.0}
    found = address_quota(Answer({"quotas": [cpus, addresses]}), "demo", "us-west4")
    assert (found, found.left) == (AddressQuota("us-west4", 8, 3), 5)


@pytest.mark.parametrize(
    ("document", "status"),
    [
        ({"error": {}}, 403),
        ({"quotas": []}, 200),
        ({"quotas": [5]}, 200),
        ({"quotas": [{"metric": "IN_USE_ADDRESSES", "limit": "many", "usage": 0}]}, 200),
    ],
)
def test_what_is_not_told_is_an_error_that_nobody_fails_by(document, status):
    with pytest.raises(TransientError, match=f"not known: HTTP {status}"):
        address_quota(Answer(document, status), "demo", "us-west4")


@pytest.mark.parametrize(
    ("quota", "wanted", "reason", "words"),
    [
        (AddressQuota("us-west4", 8, 0), 16, "external_address_limit", "us-west4 has 8 (quota IN_"),
        (AddressQuota("us-west4", 8, 5), 16, "external_address_limit", "us-west4 has 3 of 8 left"),
        (AddressQuota("us-west4", 8, 9), 1, "external_addresses_used", "us-west4 has 0 of 8 left"),
    ],
)
def test_a_quota_that_is_too_small_is_not_one_that_others_use(quota, wanted, reason, words):
    error = quota.shortage(wanted, ABOUT)
    assert (error.reason, error.exit_code) == (reason, 30)
    assert words in str(error)
    assert quota.shortage(quota.left, ABOUT) is None
