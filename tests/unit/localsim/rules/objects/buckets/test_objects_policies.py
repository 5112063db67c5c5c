"""IAM of buckets: policies are read, checked and written whole, and grant nothing here."""

import pytest

from localsim.rules.objects.buckets.policies import permissions_of_caller
from unit.localsim.rules.objects.object_rig import refusal, refusal_code

pytest_plugins = ("unit.localsim.rules.objects.object_fixtures",)


def test_a_new_policy_is_that_of_the_project(objects):
    policy = objects.store.buckets.get_iam_policy("box")
    assert (policy["version"], policy["etag"]) == (1, "CAE=")
    assert policy["bindings"] == [
        {
            "role": "roles/storage.legacyBucketOwner",
            "members": ["projectEditor:p", "projectOwner:p"],
        },
        {"role": "roles/storage.legacyBucketReader", "members": ["projectViewer:p"]},
    ]


def test_a_policy_is_written_whole_and_only_over_the_one_that_was_read(objects):
    buckets = objects.store.buckets
    read = buckets.get_iam_policy("box")
    viewer = {"role": "roles/storage.objectViewer", "members": ["user:Ann@Example.com"]}
    written = buckets.set_iam_policy("box", {**read, "bindings": [viewer, viewer]})
    assert written["bindings"] == [{**viewer, "members": ["user:ann@example.com"]}]
    assert buckets.get_iam_policy("box") == {**written, "version": 1}
    assert refusal(buckets.set_iam_policy, "box", read)[:2] == (412, "conditionNotMet")
    assert "bindings" not in buckets.set_iam_policy("box", {"bindings": []})


def test_a_change_of_the_bucket_makes_a_policy_stale(objects):
    read = objects.store.buckets.get_iam_policy("box")
    objects.store.buckets.patch("box", {"labels": {"a": "b"}})
    assert refusal_code(objects.store.buckets.set_iam_policy, "box", read) == 412


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        ({"role": "viewer", "members": []}, "The role name must be in the form"),
        (
            {"role": "roles/viewer", "members": []},
            "Role roles/viewer is not supported for this resource.",
        ),
        (
            {"role": "roles/storage.admin", "members": ["ann@example.com"]},
            "The member ann@example.com is of an unknown type.",
        ),
        (
            {"role": "roles/storage.admin", "members": ["user:"]},
            "The email address of a user in the IAM policy is empty.",
        ),
    ],
)
def test_a_wrong_binding_is_refused(objects, binding, message):
    policy = {"bindings": [binding]}
    found = refusal(objects.store.buckets.set_iam_policy, "box", policy)
    assert found[:2] == (400, "invalid")
    assert found[2].startswith(message)


def test_conditions_need_uniform_access_and_version_3(objects):
    buckets = objects.store.buckets
    binding = {
        "role": "roles/storage.admin",
        "members": ["user:a@b.c"],
        "condition": {"title": "t", "expression": "true"},
    }
    policy = {"version": 3, "bindings": [binding]}
    assert refusal_code(buckets.set_iam_policy, "box", policy) == 412
    objects.store.buckets.patch(
        "box", {"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}}}
    )
    assert refusal_code(buckets.set_iam_policy, "box", {**policy, "version": 1}) == 400
    assert buckets.set_iam_policy("box", policy)["bindings"] == [binding]
    assert buckets.get_iam_policy("box", version=3)["bindings"] == [binding]
    (told,) = buckets.get_iam_policy("box", version=1)["bindings"]
    assert told["role"].startswith("roles/storage.admin_withcond_")
    assert "condition" not in told


def test_nobody_is_made_public_where_that_is_prevented(objects):
    public = {"bindings": [{"role": "roles/storage.objectViewer", "members": ["allUsers"]}]}
    objects.store.buckets.set_iam_policy("box", public)
    objects.store.buckets.patch("box", {"iamConfiguration": {"publicAccessPrevention": "enforced"}})
    assert refusal_code(objects.store.buckets.set_iam_policy, "box", public) == 412


def test_the_caller_has_every_permission_that_exists():
    asked = ["storage.objects.get", "storage.buckets.delete"]
    assert permissions_of_caller(asked) == asked
    assert refusal(permissions_of_caller, [])[:2] == (400, "required")
    for wrong in (["storage.objects.*"], ["compute.x.y"], ["storage.buckets.list"], asked[:1] * 2):
        assert refusal_code(permissions_of_caller, wrong) == 400
