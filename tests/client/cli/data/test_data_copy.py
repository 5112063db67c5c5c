"""`tpuctl data copy`: the service copies, nothing comes here, and a second run copies nothing."""

import pytest

pytest_plugins = ("client.cli.data.data_fixtures",)

HERE, FAR = "gs://local-bucket", "gs://far-away"


@pytest.fixture
def objects(local_bucket):
    """Three objects below `set`, one of them packed, and one beside it."""
    packed = local_bucket.blob("set/packed")
    packed.content_encoding, packed.metadata = "gzip", {"from": "a sensor"}
    packed.upload_from_string(b"\x1f\x8bnot really")
    for name in ("set/a", "set/deep/b", "sets"):
        local_bucket.blob(name).upload_from_string(name.encode())


@pytest.fixture
def far_bucket(local_bucket):
    """An empty bucket in another region."""
    bucket = local_bucket.client.bucket("far-away")
    if not bucket.exists():
        bucket.create(location="US-EAST1")
    yield bucket
    for blob in list(bucket.list_blobs()):
        blob.delete()


def names(bucket):
    return [blob.name for blob in bucket.list_blobs()]


def test_a_prefix_is_copied_once_with_its_metadata(tpuctl, objects, far_bucket):
    first = tpuctl("data", "copy", f"{HERE}/set", f"{FAR}/new", "-o", "json")
    assert (first.code, first.json, first.err) == (
        0,
        {"objects_sent": 3, "bytes_sent": 27, "objects_skipped": 0},
        "warning: bucket local-bucket is in us-west4, far-away in us-east1: the copy is egress, "
        "0.02 USD/GiB (list price of 2025-01), less than 0.01 USD for these bytes\n",
    )
    assert names(far_bucket) == ["new/a", "new/deep/b", "new/packed"]
    packed = far_bucket.get_blob("new/packed")
    assert (packed.content_encoding, packed.metadata) == ("gzip", {"from": "a sensor"})
    again = tpuctl("data", "copy", f"{HERE}/set", f"{FAR}/new", "-o", "json")
    assert again.json == {"objects_sent": 0, "bytes_sent": 0, "objects_skipped": 3}


def test_one_object_gets_the_name_or_keeps_its_own_below_a_folder(tpuctl, objects, local_bucket):
    tpuctl("data", "copy", f"{HERE}/set/a", f"{HERE}/other")
    result = tpuctl("data", "copy", f"{HERE}/set/a", f"{HERE}/folder/", "-o", "json")
    assert (result.json["objects_sent"], result.err) == (1, "")
    assert local_bucket.blob("other").download_as_bytes() == b"set/a"
    assert local_bucket.blob("folder/a").download_as_bytes() == b"set/a"


def test_patterns_a_dry_run_and_delete_as_push_has_them(tpuctl, objects, far_bucket):
    far_bucket.blob("old").upload_from_string(b"old")
    argv = ("data", "copy", f"{HERE}/set", FAR, "--exclude", "deep/", "--delete", "--yes")
    plan = tpuctl(*argv, "--dry-run", "-o", "json").json
    assert [(row["key"], row["action"]) for row in plan] == [
        ("a", "send"),
        ("packed", "send"),
        ("old", "delete"),
    ]
    assert tpuctl(*argv, "-o", "json").json == {
        "objects_sent": 2,
        "bytes_sent": 17,
        "objects_skipped": 0,
        "objects_deleted": 1,
    }
    assert names(far_bucket) == ["a", "packed"]


def test_what_was_interrupted_goes_on_and_what_changed_is_copied(
    tpuctl, cloud, objects, far_bucket, local_bucket
):
    cloud.control.add_fault("storage.objects.rewrite: return-403 x1")
    try:
        failed = tpuctl("data", "copy", f"{HERE}/set", FAR, "-o", "json")
    finally:
        cloud.control.clear_faults()
    assert (failed.code, failed.json["objects_sent"]) == (70, 2)
    local_bucket.blob("set/deep/b").upload_from_string(b"newer")
    tpuctl("data", "copy", f"{HERE}/set", FAR)
    assert far_bucket.blob("deep/b").download_as_bytes() == b"newer"
    assert tpuctl("data", "copy", f"{HERE}/set", FAR, "-o", "json").json["objects_skipped"] == 3


@pytest.mark.parametrize(
    ("source", "target", "code", "error"),
    [
        (f"{HERE}/none", FAR, 10, f"nothing is under {HERE}/none/"),
        (f"{HERE}/set", f"{HERE}/set/deep", 2, f"{HERE}/set/deep/ is within {HERE}/set/"),
        (f"{HERE}/set/a", f"{HERE}/set/a", 2, f"{HERE}/set/a is both source and target"),
        ("here", FAR, 2, "data copy does not copy from a path to gs://"),
    ],
)  # fmt: skip
def test_what_cannot_be_copied_is_refused(tpuctl, objects, far_bucket, source, target, code, error):
    result = tpuctl("data", "copy", source, target)
    assert (result.code, result.err.splitlines()[0]) == (code, f"error: {error}")
