"""Soft-deleted buckets: kept with their policy and objects, restored, and gone in the end."""

import pytest

from localsim.rules.objects.listing import ListQuery
from localsim.rules.objects.storage_model import ObjectKey
from unit.localsim.rules.objects.object_rig import NOW_S, refusal

pytest_plugins = ("unit.localsim.rules.objects.object_fixtures",)

DAY_S = 86400
SOFT = {"softDeletePolicy": {"retentionDurationSeconds": 7 * DAY_S}}


@pytest.fixture
def soft(objects):
    """A store with a bucket `kept` that is kept for a week."""
    objects.store.buckets.create("p", "kept", SOFT | {"labels": {"a": "b"}})
    return objects


def deleted(objects, *, prefix="", start=("", 0), limit=10):
    found = objects.store.buckets.deleted.list("p", prefix=prefix, start=start, limit=limit)
    return [(bucket.name, bucket.generation) for bucket in found]


def kept_objects(objects, bucket="kept"):
    return [each.name for each in objects.store.list(bucket, ListQuery(soft_deleted=True)).items]


def test_a_bucket_without_a_policy_is_gone(objects):
    objects.store.buckets.delete("box")
    assert deleted(objects) == []


def test_a_bucket_comes_back_with_its_settings_and_its_policy(soft):
    policy = {"bindings": [{"role": "roles/storage.objectViewer", "members": ["allUsers"]}]}
    soft.store.buckets.set_iam_policy("kept", policy)
    before = soft.store.buckets.get("kept")
    soft.store.buckets.delete("kept")
    gone = soft.store.buckets.deleted.get("kept", before.generation)
    assert gone.properties["softDeleteTime"] == "2026-08-10T22:13:20.000Z"
    assert gone.properties["hardDeleteTime"] == "2026-08-17T22:13:20.000Z"
    assert refusal(soft.store.buckets.get, "kept")[0] == 404
    assert soft.store.buckets.restore("kept", before.generation) == before
    shown = soft.store.buckets.get_iam_policy("kept")
    assert shown["bindings"] == policy["bindings"]
    assert deleted(soft) == []


def test_its_objects_wait_with_it(soft):
    stored = soft.put("a", b"abc", bucket="kept")
    soft.store.delete(ObjectKey("kept", "a"))
    generation = soft.store.buckets.get("kept").generation
    soft.store.buckets.delete("kept")
    soft.store.buckets.create("p", "kept", {})
    assert kept_objects(soft) == []
    assert refusal(soft.store.buckets.restore, "kept", generation)[:2] == (409, "conflict")
    soft.store.buckets.delete("kept")
    soft.store.buckets.restore("kept", generation)
    assert kept_objects(soft) == ["a"]
    soft.store.restores.restore(ObjectKey("kept", "a", stored.generation))
    assert soft.read("a", bucket="kept") == b"abc"


def test_it_goes_no_sooner_than_its_objects(soft):
    soft.put("a", bucket="kept")
    soft.store.delete(ObjectKey("kept", "a"))
    soft.store.buckets.patch("kept", {"softDeletePolicy": {"retentionDurationSeconds": 0}})
    soft.clock.advance(DAY_S)
    soft.store.buckets.delete("kept")
    ((name, generation),) = deleted(soft)
    gone = soft.store.buckets.deleted.get(name, generation)
    assert gone.properties["hardDeleteTime"] == "2026-08-17T22:13:20.000Z"
    assert soft.store.next_hard_deletion_s() == NOW_S + 7 * DAY_S


def test_when_it_is_due_nothing_of_it_is_left(soft):
    soft.put("a", bytes(200_000), bucket="kept")
    soft.store.delete(ObjectKey("kept", "a"))
    generation = soft.store.buckets.get("kept").generation
    soft.store.buckets.delete("kept")
    soft.clock.advance(7 * DAY_S)
    assert deleted(soft) == []
    assert refusal(soft.store.buckets.restore, "kept", generation)[0] == 404
    soft.store.hard_delete()
    assert soft.store.next_hard_deletion_s() is None
    assert soft.store.rows.files() == set()


def test_buckets_of_one_name_are_listed_one_after_the_other(soft):
    first = soft.store.buckets.get("kept").generation
    soft.store.buckets.delete("kept")
    second = soft.store.buckets.create("p", "kept", SOFT).generation
    soft.store.buckets.delete("kept")
    assert deleted(soft) == [("kept", first), ("kept", second)]
    assert deleted(soft, start=("kept", second)) == [("kept", second)]
    assert deleted(soft, prefix="x") == []
    soft.store.buckets.restore("kept", second)
    assert deleted(soft, limit=1) == [("kept", first)]
