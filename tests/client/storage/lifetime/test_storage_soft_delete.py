"""Soft-deleted objects and buckets through Google's own client, and what bytes show beside it."""

import json
from pathlib import Path

import pytest
from google.api_core import exceptions

from client.storage.storage_fixtures import running
from localsim.clock import Clock

pytest_plugins = ("client.storage.storage_fixtures",)

WEEK_S = 7 * 86400
JSON = {"Content_Type": "application/json"}


@pytest.fixture
def soft(own_bucket):
    """A bucket that keeps what is deleted for a week."""
    own_bucket.reload()
    own_bucket.soft_delete_policy.retention_duration_seconds = WEEK_S
    own_bucket.patch()
    return own_bucket


def written(bucket, name, data=b"x"):
    blob = bucket.blob(name)
    blob.upload_from_string(data, content_type="text/x")
    return blob


def kept(bucket):
    return [(blob.name, blob.generation) for blob in bucket.list_blobs(soft_deleted=True)]


def test_a_deleted_object_is_listed_looked_at_and_restored(soft):
    blob = written(soft, "a", b"abc")
    generation = blob.generation
    blob.delete()
    assert list(soft.list_blobs()) == []
    assert kept(soft) == [("a", generation)]
    found = soft.get_blob("a", generation=generation, soft_deleted=True)
    assert (found.hard_delete_time - found.soft_delete_time).total_seconds() == WEEK_S
    restored = soft.restore_blob("a", generation=generation, if_generation_match=0)
    assert restored.generation > generation
    assert (restored.content_type, restored.download_as_bytes()) == ("text/x", b"abc")
    assert (restored.soft_delete_time, kept(soft)) == (None, [])
    with pytest.raises(exceptions.PreconditionFailed, match="not soft deleted"):
        soft.restore_blob("a", generation=restored.generation)


def test_without_a_policy_nothing_comes_back(own_bucket):
    blob = written(own_bucket, "a")
    blob.delete()
    assert kept(own_bucket) == []
    with pytest.raises(exceptions.PreconditionFailed, match="does not have a soft delete policy"):
        own_bucket.restore_blob("a", generation=blob.generation)


def test_a_deleted_bucket_is_listed_looked_at_and_restored(soft):
    client, generation = soft.client, soft.generation
    soft.labels = {"a": "b"}
    soft.patch()
    soft.delete()
    assert client.lookup_bucket(soft.name) is None
    listed = [
        (found.name, found.generation)
        for found in client.list_buckets(soft_deleted=True, prefix=soft.name)
    ]
    assert (soft.name, generation) in listed
    found = client.get_bucket(soft.name, generation=generation, soft_deleted=True)
    assert found.hard_delete_time > found.soft_delete_time
    restored = client.restore_bucket(soft.name, generation=generation)
    assert (restored.labels, restored.soft_delete_time) == ({"a": "b"}, None)
    with pytest.raises(exceptions.NotFound):
        client.restore_bucket(soft.name, generation=generation)


def test_many_come_back_by_one_operation(soft, box):
    for name in ("logs/1", "logs/2", "other"):
        written(soft, name).delete()
    body = json.dumps({"matchGlobs": ["logs/*"]}).encode()
    done = box.request("POST", f"{box.objects}/bulkRestore", body, **JSON).json
    assert done["done"] is True
    counts = {name: done["metadata"][name] for name in ("succeededCount", "skippedCount")}
    assert counts == {"succeededCount": "2", "skippedCount": "1"}
    assert sorted(blob.name for blob in soft.list_blobs()) == ["logs/1", "logs/2"]
    operations = f"{box.bucket_path}/operations"
    operation = done["name"].rpartition("/")[2]
    assert box.request("GET", f"{operations}/{operation}").json == done
    assert box.request("GET", f"{operations}?pageSize=1").json["operations"] == [done]
    assert box.request("POST", f"{operations}/{operation}/cancel").status == 204
    assert box.request("GET", f"{operations}/nothing").reason == "notFound"
    assert box.request("POST", f"{operations}/nothing/cancel").reason == "notFound"


@pytest.mark.parametrize(
    "body",
    [
        {"matchGlobs": "x"},
        {"matchGlobs": ["[a-"]},
        {"softDeletedAfterTime": "x"},
        {"createdBeforeTime": "2026-01-01"},
    ],
)
def test_a_bulk_restore_that_does_not_read_is_refused(soft, box, body):
    reply = box.request("POST", f"{box.objects}/bulkRestore", json.dumps(body).encode(), **JSON)
    assert reply.status == 400


def test_a_generation_names_what_is_deleted(soft, box):
    """And nothing reads its bytes."""
    blob = written(soft, "a")
    blob.delete()
    for path in (f"{box.objects}/a?softDeleted=true", f"{box.bucket_path}?softDeleted=true"):
        assert box.request("GET", path).reason == "required"
    assert box.request("POST", f"{box.objects}/a/restore").reason == "required"
    assert box.request("POST", f"{box.bucket_path}/restore").reason == "required"
    media = f"{box.objects}/a?softDeleted=true&generation={blob.generation}&alt=media"
    assert box.request("GET", media).status == 400
    both = box.request("GET", f"{box.objects}?softDeleted=true&versions=true")
    assert (both.status, both.reason) == (400, "invalid")


def test_fields_choose_of_a_deleted_object(soft, box):
    blob = written(soft, "a")
    blob.delete()
    query = f"softDeleted=true&generation={blob.generation}&fields=name,hardDeleteTime"
    assert box.request("GET", f"{box.objects}/a?{query}").json.keys() == {"name", "hardDeleteTime"}
    shown = box.request("GET", f"{box.objects}?softDeleted=true&fields=items(softDeleteTime)").json
    assert [item.keys() for item in shown["items"]] == [{"softDeleteTime"}]


def test_when_the_clock_says_so_it_goes_and_its_bytes_are_free(tmp_path, until):
    clock = Clock(manual_start_s=1_786_400_000.0)

    def bodies():
        return list(Path(tmp_path).glob("storage/objects/*/*"))

    with running(tmp_path, clock) as served:
        bucket = served.client().bucket("box")
        bucket.soft_delete_policy.retention_duration_seconds = WEEK_S
        bucket = bucket.client.create_bucket(bucket)
        written(bucket, "a", bytes(200_000)).delete()
        served.on_loop(lambda: clock.advance(WEEK_S - 1))
        assert (len(kept(bucket)), len(bodies())) == (1, 1)
        served.on_loop(lambda: clock.advance(1))
        assert kept(bucket) == []
        until(lambda: bodies() == [])


def test_a_killed_server_forgets_nothing_of_it(killable):
    bucket = killable.start().client().bucket("box")
    bucket.soft_delete_policy.retention_duration_seconds = WEEK_S
    bucket = bucket.client.create_bucket(bucket)
    large, small = written(bucket, "large", bytes(300_000)), written(bucket, "small", b"abc")
    large.delete()
    small.delete()
    killable.kill()
    bucket = killable.start().client().get_bucket("box")
    assert bucket.restore_blob("small", generation=small.generation).download_as_bytes() == b"abc"
    restored = bucket.restore_blob("large", generation=large.generation)
    assert restored.download_as_bytes() == bytes(300_000)
