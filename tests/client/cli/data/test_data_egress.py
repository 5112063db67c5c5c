"""A bucket and a slice in different regions: a warning with the price, and nothing else changes."""

import pytest

from tpuctl.catalog.egress import EgressRate
from tpuctl.errors import PermissionDeniedError
from tpuctl.operations.stage.plan.egress_price import price_text
from tpuctl.store.gcs.bulk import BulkBucket

ELSEWHERE = "gs://far-bucket/x"


@pytest.fixture
def far_bucket(cloud):
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    client = storage.Client(
        project="p",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": cloud.line["storage"]},
    )
    client.bucket("far-bucket").create(location="US-EAST1")
    return "far-bucket"


@pytest.fixture
def lone_file(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"x")
    return str(path)


def test_a_bucket_in_another_region_is_a_warning_with_its_price(tpuctl, far_bucket, lone_file):
    result = tpuctl("data", "push", lone_file, ELSEWHERE)
    assert (result.code, result.err) == (
        0,
        "warning: bucket far-bucket is in us-east1: what workers in us-west4-a "
        "read of it is egress, 0.02 USD/GiB (list price of 2025-01), "
        "less than 0.01 USD for these bytes\n",
    )


def test_for_workers_the_planned_bytes_have_a_price(tpuctl, far_bucket, lone_file):
    tpuctl("node", "create", "n1", "-t", "v5litepod-4")
    tpuctl("data", "push", lone_file, ELSEWHERE)
    result = tpuctl("data", "push", ELSEWHERE, "worker:n1:x", "--dry-run")
    assert result.err.endswith("(list price of 2025-01), less than 0.01 USD for these bytes\n")


def test_the_price_comes_before_anything_is_staged(tpuctl, lone_file):
    far = ("--zone", "us-central1-a")
    tpuctl("node", "create", "n1", "-t", "v5litepod-4", *far)
    plan = tpuctl("data", "push", lone_file, "worker:n1:x", "--dry-run", *far)
    assert plan.err.startswith("warning: bucket local-bucket is in us-west4: what workers in us-c")


def test_the_price_of_many_bytes_is_an_amount():
    rate = EgressRate(0.05, None, "assumed")
    text = price_text(rate, 300 * 1024**3)
    assert text == "0.05 USD/GiB (assumed), 15.00 USD for these bytes"


def test_who_may_not_read_the_bucket_s_metadata_hears_nothing(
    tpuctl, far_bucket, lone_file, monkeypatch
):
    def forbidden(self):
        raise PermissionDeniedError("no storage.buckets.get")

    monkeypatch.setattr(BulkBucket, "facts", forbidden)
    result = tpuctl("data", "push", lone_file, ELSEWHERE)
    assert (result.code, result.err) == (0, "")


def test_the_bucket_of_the_context_is_where_its_slices_are(tpuctl, lone_file):
    assert tpuctl("data", "push", lone_file, "gs://local-bucket/x").err == ""
