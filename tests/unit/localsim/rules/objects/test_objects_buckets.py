"""Buckets: names, settings, who may change them when, and their policies."""

import pytest

from localsim.rules.objects.buckets.bucket_store import check_bucket_name
from localsim.rules.objects.storage_model import Preconditions, StorageError
from unit.localsim.rules.objects.object_rig import NOW_S, refusal, refusal_code

pytest_plugins = ("unit.localsim.rules.objects.object_fixtures",)

DAY_S = 86400


def settings(objects, name="box"):
    return objects.store.buckets.get(name).properties


def create(objects, name="made", **resource):
    return objects.store.buckets.create("p", name, resource)


def patch(objects, name="box", preconditions=None, **change):
    return objects.store.buckets.patch(name, change, preconditions or Preconditions())


def lock(objects, name="box"):
    found = objects.store.buckets.get(name)
    wanted = Preconditions(metageneration_match=found.metageneration)
    return objects.store.buckets.lock_retention_policy(name, wanted)


@pytest.mark.parametrize("name", ["abc", "a.b-c_d", "0" * 63, ".".join(["a" * 60] * 3)])
def test_a_good_name(name):
    check_bucket_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "ab",
        "Abc",
        "-abc",
        "abc-",
        "a" * 64,
        "goog-x",
        "my-g00gle",
        "1.2.3.4",
        "a..b",
        "a/b",
        "é" * 3,
    ],
)
def test_a_bad_name(name):
    assert refusal(check_bucket_name, name) == (400, "invalid", f"Invalid bucket name: '{name}'")


def test_a_new_bucket_shows_what_it_was_given_and_google_s_defaults(objects):
    made = create(objects, location="us-central1", storageClass="nearline", labels={"a": "b"})
    assert made.properties == {
        "iamConfiguration": {
            "uniformBucketLevelAccess": {"enabled": False},
            "publicAccessPrevention": "inherited",
        },
        "location": "US-CENTRAL1",
        "storageClass": "NEARLINE",
        "labels": {"a": "b"},
    }


def test_a_name_is_taken_once(objects):
    assert refusal(create, objects, "box")[:2] == (409, "conflict")


def test_what_is_only_stored_comes_back(objects):
    stored = {
        "cors": [{"origin": ["*"], "method": ["GET"]}],
        "website": {"mainPageSuffix": "index.html"},
        "logging": {"logBucket": "logs"},
        "lifecycle": {"rule": [{"action": {"type": "Delete"}, "condition": {"age": 30}}]},
    }
    assert stored.items() <= create(objects, **stored).properties.items()


def test_what_only_google_sets_and_what_nobody_knows_is_ignored(objects):
    made = create(objects, kind="storage#bucket", timeCreated="1970-01-01T00:00:00Z", colour="red")
    assert {"kind", "timeCreated", "colour"}.isdisjoint(made.properties)


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        ({"storageClass": "BOGUS"}, 'Invalid storage class "BOGUS"'),
        ({"location": "no where"}, "The specified location constraint is not valid."),
        ({"labels": {"Env": "x"}}, "Invalid user label: Env"),
        ({"labels": {"1k": "v"}}, "Invalid user label: 1k"),
        ({"labels": {"k": "V"}}, "Invalid user label: k with value V"),
        ({"labels": {"k": "v" * 64}}, f"Invalid user label: k with value {'v' * 64}"),
        (
            {"labels": {f"k{number}": "" for number in range(65)}},
            "Attempt to create a bucket with 65 labels, maximum is 64",
        ),
        (
            {"retentionPolicy": {"retentionPeriod": "0"}},
            "Retention policy must have a retention period greater than 0 and less than 100 years.",
        ),
        (
            {"softDeletePolicy": {"retentionDurationSeconds": 604_799}},
            "Soft delete policy must have a retention duration between 7 days and 90 days.",
        ),
        (
            {"lifecycle": {"rule": [{"action": {"type": "Delete"}, "condition": {}}]}},
            "Lifecycle rules must have a condition.",
        ),
        (
            {"lifecycle": {"rule": [{"action": {"type": "Frob"}, "condition": {"age": 1}}]}},
            "Invalid value for: Frob is not a valid value",
        ),
        (
            {"iamConfiguration": {"publicAccessPrevention": "bogus"}},
            "Invalid value for: bogus is not a valid value",
        ),
    ],
)
def test_a_wrong_value_is_refused_in_the_words_of_google(objects, resource, message):
    assert refusal(create, objects, **resource) == (400, "invalid", message)


@pytest.mark.parametrize(
    "resource",
    [
        {"versioning": {"enabled": "yes"}},
        {"labels": 3},
        {"lifecycle": {"rule": 7}},
        {"billing": []},
        {"iamConfiguration": {"publicAccessPrevention": []}},
    ],
)
def test_a_value_of_the_wrong_type_is_refused(objects, resource):
    assert refusal_code(patch, objects, **resource) == 400


def test_a_patch_merges_and_null_clears(objects):
    patch(objects, labels={"a": "1", "b": "2"}, versioning={"enabled": True})
    patch(objects, labels={"a": None, "c": "3"})
    assert settings(objects)["labels"] == {"b": "2", "c": "3"}
    assert settings(objects)["versioning"] == {"enabled": True}
    patch(objects, labels={}, versioning=None)
    assert {"labels", "versioning"}.isdisjoint(settings(objects))


def test_a_patch_of_one_half_of_the_access_leaves_the_other(objects):
    patch(objects, iamConfiguration={"publicAccessPrevention": "enforced"})
    patch(objects, iamConfiguration={"uniformBucketLevelAccess": {"enabled": True}})
    access = settings(objects)["iamConfiguration"]
    assert access["publicAccessPrevention"] == "enforced"
    assert access["uniformBucketLevelAccess"]["enabled"] is True
    assert access["uniformBucketLevelAccess"]["lockedTime"].startswith("2026-11-")


def test_an_update_clears_what_it_leaves_out_but_not_where_the_bucket_is(objects):
    create(objects, location="EU", labels={"a": "b"}, versioning={"enabled": True})
    updated = objects.store.buckets.update("made", {"labels": {"c": "d"}})
    assert updated.properties["labels"] == {"c": "d"}
    assert updated.properties["location"] == "EU"
    assert "versioning" not in updated.properties


def test_a_bucket_does_not_move(objects):
    assert refusal_code(patch, objects, location="EU") == 400
    assert patch(objects, location="us").metageneration == 2


def test_only_a_change_that_says_something_is_counted(objects):
    assert [patch(objects).metageneration, patch(objects, labels={}).metageneration] == [1, 2]


def test_a_refused_patch_leaves_the_bucket_as_it_was(objects):
    before = objects.store.buckets.get("box")
    assert refusal_code(patch, objects, labels={"a": "b"}, storageClass="BOGUS") == 400
    assert objects.store.buckets.get("box") == before


def test_conditions_on_the_metageneration(objects):
    assert refusal_code(patch, objects, preconditions=Preconditions(metageneration_match=2)) == 412
    other = Preconditions(metageneration_not_match=1)
    assert refusal_code(patch, objects, preconditions=other) == 304
    wrong = Preconditions(metageneration_match=7)
    assert refusal_code(objects.store.buckets.delete, "box", wrong) == 412


def test_a_bucket_with_objects_stays(objects):
    objects.put("a")
    words = (409, "conflict", "The bucket you tried to delete is not empty.")
    assert refusal(objects.store.buckets.delete, "box") == words
    patch(objects, versioning={"enabled": True})
    objects.delete("a")
    assert refusal(objects.store.buckets.delete, "box") == words  # for a noncurrent one
    objects.delete("a", objects.get("a", generation_of(objects, "a")).generation)
    objects.store.buckets.delete("box")
    with pytest.raises(StorageError, match="does not exist"):
        objects.store.buckets.get("box")


def generation_of(objects, name):
    (found,) = objects.store.database.connection.execute(
        "SELECT generation FROM storage_noncurrent WHERE name = ?", (name,)
    ).fetchone()
    return found


def test_a_retention_policy_takes_effect_when_it_is_first_set(objects):
    patch(objects, retentionPolicy={"retentionPeriod": 60, "isLocked": True})
    first = settings(objects)["retentionPolicy"]
    assert (first["retentionPeriod"], "isLocked" in first) == ("60", False)
    objects.clock.advance(DAY_S)
    patch(objects, retentionPolicy={"retentionPeriod": "120"})
    assert settings(objects)["retentionPolicy"] == {**first, "retentionPeriod": "120"}
    patch(objects, retentionPolicy={})
    assert settings(objects)["retentionPolicy"]["retentionPeriod"] == "120"


def test_a_locked_policy_only_grows(objects):
    patch(objects, retentionPolicy={"retentionPeriod": 60})
    assert lock(objects).properties["retentionPolicy"]["isLocked"] is True
    assert refusal(patch, objects, retentionPolicy=None) == (
        403,
        "retentionPolicyNotMet",
        "Bucket 'box' has a locked Retention Policy which cannot be removed.",
    )
    assert refusal(patch, objects, retentionPolicy={"retentionPeriod": 59}) == (
        403,
        "forbidden",
        "Cannot reduce retention duration of a locked Retention Policy for bucket 'box'.",
    )
    longer = patch(objects, retentionPolicy={"retentionPeriod": 61})
    assert longer.properties["retentionPolicy"]["isLocked"] is True
    assert refusal_code(objects.store.buckets.update, "box", {"labels": {}}) == 403


def test_a_lock_needs_a_policy_and_the_metageneration(objects):
    assert refusal(lock, objects)[2] == "Bucket 'box' does not have an unlocked retention policy."
    patch(objects, retentionPolicy={"retentionPeriod": 60})
    locking = objects.store.buckets.lock_retention_policy
    assert refusal(locking, "box", Preconditions())[:2] == (400, "required")
    assert refusal_code(locking, "box", Preconditions(metageneration_match=1)) == 412
    lock(objects)
    assert refusal_code(lock, objects) == 400


def test_soft_delete_is_stored(objects):
    patch(objects, softDeletePolicy={"retentionDurationSeconds": 7 * DAY_S})
    stored = settings(objects)["softDeletePolicy"]
    assert stored["retentionDurationSeconds"] == "604800"
    patch(objects, softDeletePolicy={"retentionDurationSeconds": 0})
    assert settings(objects)["softDeletePolicy"] == {"retentionDurationSeconds": "0"}


def test_who_pays_is_stored(objects):
    assert patch(objects, billing={"requesterPays": True}).properties["billing"] == {
        "requesterPays": True
    }


def test_a_bucket_survives_the_server(objects):
    patch(objects, labels={"a": "b"})
    objects.store.buckets.set_iam_policy("box", {"bindings": []})
    found = objects.store.buckets.get("box")
    assert (found.metageneration, found.updated_s) == (3, NOW_S)
    assert "bindings" not in objects.store.buckets.get_iam_policy("box")
