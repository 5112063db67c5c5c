"""Buckets through Google's own client: their settings, their policy, and what they refuse."""

import pytest
from google.api_core import exceptions

pytest_plugins = ("client.storage.storage_fixtures",)


@pytest.fixture
def owner(own_bucket):
    return own_bucket.client


def test_buckets_are_made_found_listed_and_deleted(owner, box):
    def names(**query):
        return [found.name for found in owner.list_buckets(prefix=f"{box.name}-", **query)]

    owner.create_bucket(f"{box.name}-first", location="us-west4")
    again = owner.get_bucket(f"{box.name}-first")
    assert (again.location, again.location_type) == ("US-WEST4", "region")
    owner.create_bucket(f"{box.name}-second")
    assert names() == names(page_size=1) == [f"{box.name}-first", f"{box.name}-second"]
    with pytest.raises(exceptions.Conflict, match="you already own it"):
        owner.create_bucket(again)
    again.blob("x").upload_from_string(b"x")
    with pytest.raises(exceptions.Conflict, match="not empty"):
        again.delete()
    again.delete(force=True)
    assert owner.lookup_bucket(again.name) is None
    with pytest.raises(exceptions.NotFound, match="The specified bucket does not exist"):
        again.blob("x").upload_from_string(b"x")
    with pytest.raises(exceptions.PreconditionFailed):
        owner.get_bucket(box.name, if_metageneration_match=2)


def test_settings_are_patched_one_by_one(own_bucket):
    own_bucket.reload()
    own_bucket.labels = {"team": "tpu", "run": "7"}
    own_bucket.versioning_enabled = True
    own_bucket.add_lifecycle_delete_rule(age=30, is_live=False)
    own_bucket.patch()
    assert own_bucket.metageneration == 2
    labels = own_bucket.labels
    del labels["run"]
    own_bucket.labels = labels
    own_bucket.patch(if_metageneration_match=2)
    seen = own_bucket.client.get_bucket(own_bucket.name)
    assert seen.labels == {"team": "tpu"}
    assert seen.versioning_enabled is True
    assert [dict(rule)["action"] for rule in seen.lifecycle_rules] == [{"type": "Delete"}]
    assert seen.metageneration == 3
    with pytest.raises(exceptions.PreconditionFailed):
        own_bucket.patch(if_metageneration_match=2)


def test_an_update_clears_what_it_leaves_out(own_bucket):
    own_bucket.reload()
    own_bucket.labels = {"team": "tpu"}
    own_bucket.patch()
    own_bucket._properties.pop("labels")
    own_bucket.update()
    assert own_bucket.client.get_bucket(own_bucket.name).labels == {}


def test_the_policy_is_kept_and_guarded_by_its_etag(own_bucket):
    policy = own_bucket.get_iam_policy(requested_policy_version=3)
    assert {binding["role"] for binding in policy.bindings} == {
        "roles/storage.legacyBucketOwner",
        "roles/storage.legacyBucketReader",
    }
    policy.bindings.append(
        {"role": "roles/storage.objectViewer", "members": {"user:someone@example.com"}}
    )
    own_bucket.set_iam_policy(policy)
    seen = own_bucket.get_iam_policy(requested_policy_version=3)
    members = [set(each["members"]) for each in seen.bindings if "Viewer" in each["role"]]
    assert members == [{"user:someone@example.com"}]
    with pytest.raises(exceptions.PreconditionFailed):
        own_bucket.set_iam_policy(policy)


def test_whoever_reaches_this_port_may_everything(own_bucket):
    asked = ["storage.objects.get", "storage.buckets.update"]
    assert own_bucket.test_iam_permissions(asked) == asked


def test_a_retention_policy_holds_and_can_be_locked(own_bucket):
    own_bucket.reload()
    own_bucket.retention_period = 3600
    own_bucket.patch()
    blob = own_bucket.blob("kept")
    blob.upload_from_string(b"x")
    assert blob.retention_expiration_time is not None
    with pytest.raises(exceptions.Forbidden, match="retention policy"):
        blob.delete()
    with pytest.raises(exceptions.Forbidden, match="retention policy"):
        blob.upload_from_string(b"y")
    own_bucket.lock_retention_policy()
    assert own_bucket.retention_policy_locked is True
    own_bucket.retention_period = None
    with pytest.raises(exceptions.Forbidden):
        own_bucket.patch()


def test_the_layout_of_a_flat_bucket_says_nothing_of_folders(box):
    reply = box.request("GET", f"{box.bucket_path}/storageLayout")
    assert reply.status == 200
    assert reply.json == {
        "kind": "storage#storageLayout",
        "bucket": box.name,
        "location": "US",
        "locationType": "multi-region",
    }
    assert box.request("GET", "/storage/v1/b/nobodys/storageLayout").status == 404


def test_a_lock_needs_the_metageneration_it_saw(box):
    path = f"{box.bucket_path}/lockRetentionPolicy"
    assert box.request("POST", path).reason == "required"
    assert box.request("POST", f"{path}?ifMetagenerationMatch=1").reason == "invalid"
