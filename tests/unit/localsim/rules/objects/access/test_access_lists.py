"""Access control lists: what is in one, how it changes, and what uniform access does to it."""

import pytest

from localsim.rules.objects.access.access_lists import (
    BUCKET_LIST,
    DEFAULT_LIST,
    OBJECT_LIST,
    checked_entity,
    checked_list,
    entity_of,
    member_of,
    predefined_list,
    with_entry,
    without_entry,
)
from localsim.rules.objects.buckets.bucket_access import PredefinedLists
from localsim.rules.objects.storage_model import NO_PRECONDITIONS, NewObject, ObjectKey
from unit.localsim.rules.objects.object_rig import refusal

pytest_plugins = ("unit.localsim.rules.objects.object_fixtures",)

NUMBER = "424242424242"
LOCAL = "local-project"
OWNERS, EDITORS, VIEWERS = (f"project-{each}-{NUMBER}" for each in ("owners", "editors", "viewers"))
PROJECT_PRIVATE = {OWNERS: "OWNER", EDITORS: "OWNER", VIEWERS: "READER"}
WRITER_OF_ALL = f"user-{NUMBER}-compute@developer.gserviceaccount.com"
PUBLIC = {"entity": "allUsers", "role": "READER"}
UNIFORM = {"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}}}
PREVENTED = {"iamConfiguration": {"publicAccessPrevention": "enforced"}}


@pytest.fixture
def store(objects):
    objects.store.buckets.create(LOCAL, "own", {})
    return objects.store


def entries(store, name):
    return dict(store.lists.read(ObjectKey("own", name))[1])


def own(store):
    return dict(store.buckets.own_list("own")[1])


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("allUsers", "allUsers"),
        ("user-Ann@Example.com", "user-ann@example.com"),
        ("group-TPU@example.com", "group-tpu@example.com"),
        ("domain-Example.com", "domain-example.com"),
        (f"user-{'a1' * 32}", f"user-{'a1' * 32}"),
        (f"project-owners-{LOCAL}", OWNERS),
        ("project-viewers-123", "project-viewers-123"),
    ],
)
def test_an_entity_is_kept_in_small_letters_and_a_project_by_its_number(given, kept):
    assert checked_entity(given) == kept
    assert entity_of(member_of(kept, LOCAL)) == kept


@pytest.mark.parametrize(
    "entity", ["", "allusers", "ann@example.com", "user-", "user-ann", "project-owners", "domain-x"]
)
def test_who_is_none_of_them_is_refused(entity):
    words = f'Scope text "{entity}" is not valid.'
    assert refusal(checked_entity, entity) == (400, "invalid", words)


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (BUCKET_LIST, {"allUsers": "READER"}, "invalid"),
        (BUCKET_LIST, ["allUsers"], "invalid"),
        (BUCKET_LIST, [{"role": "READER"}], "required"),
        (BUCKET_LIST, [{"entity": "allUsers"}], "required"),
        (BUCKET_LIST, [{"entity": ["allUsers"], "role": "READER"}], "invalid"),
        (BUCKET_LIST, [{"entity": "allUsers", "role": "reader"}], "invalid"),
        (BUCKET_LIST, [{"entity": "allUsers", "role": ["READER"]}], "invalid"),
        (OBJECT_LIST, [{"entity": "allUsers", "role": "WRITER"}], "invalid"),
        (DEFAULT_LIST, [PUBLIC] * 101, "tooManyAccessControlEntries"),
    ],
)
def test_a_list_that_is_none_is_refused(kind, value, reason):
    assert refusal(checked_list, kind, value)[:2] == (400, reason)


def test_a_second_entry_for_an_entity_replaces_the_first():
    pair = [PUBLIC, {"entity": "allUsers", "role": "WRITER"}]
    assert checked_list(BUCKET_LIST, pair) == {"allUsers": "WRITER"}


def test_each_kind_has_its_predefined_lists():
    assert predefined_list(BUCKET_LIST, "publicReadWrite", LOCAL) == {
        OWNERS: "OWNER",
        "allUsers": "WRITER",
    }
    assert predefined_list(OBJECT_LIST, "bucketOwnerRead", LOCAL) == {OWNERS: "READER"}
    for kind, name in ((BUCKET_LIST, "bucketOwnerRead"), (OBJECT_LIST, "publicReadWrite")):
        assert refusal(predefined_list, kind, name, LOCAL)[0] == 400


def test_a_bucket_has_the_list_of_its_project_until_it_gets_another(store):
    assert own(store) == PROJECT_PRIVATE
    store.buckets.change_own_list("own", with_entry("user-ann@example.com", "WRITER"))
    assert own(store) == PROJECT_PRIVATE | {"user-ann@example.com": "WRITER"}
    store.buckets.patch("own", {"acl": [PUBLIC]})
    assert own(store) == {"allUsers": "READER", OWNERS: "OWNER"}
    assert store.buckets.get("own").metageneration == 3


def test_a_buckets_list_is_its_policy_in_other_words(store):
    store.buckets.change_own_list("own", with_entry("user-ann@example.com", "WRITER"))
    writer = {"role": "roles/storage.legacyBucketWriter", "members": ["user:ann@example.com"]}
    policy = store.buckets.get_iam_policy("own")
    assert writer in policy["bindings"]
    others = [binding for binding in policy["bindings"] if binding != writer]
    viewer = {"role": "roles/storage.objectViewer", "members": ["allUsers"]}
    store.buckets.set_iam_policy("own", {"bindings": [*others, viewer]})
    assert own(store) == PROJECT_PRIVATE
    store.buckets.patch("own", {}, predefined=PredefinedLists("private"))
    assert own(store) == {OWNERS: "OWNER"}
    assert viewer in store.buckets.get_iam_policy("own")["bindings"]


def test_the_owner_stays_one(store, objects):
    demoted = [{"entity": OWNERS, "role": "READER"}]
    assert refusal(store.buckets.patch, "own", {"acl": demoted})[:2] == (403, "forbidden")
    edit = without_entry(OWNERS, OWNERS)
    assert refusal(store.buckets.change_own_list, "own", edit)[0] == 403
    objects.put("x", bucket="own")
    edit = with_entry(WRITER_OF_ALL, "READER")
    assert refusal(store.lists.change, ObjectKey("own", "x"), edit)[0] == 403


def test_an_object_has_the_list_of_the_moment_when_it_was_written(store, objects):
    objects.put("first", bucket="own")
    store.buckets.patch("own", {"defaultObjectAcl": [PUBLIC]})
    objects.put("second", bucket="own")
    store.buckets.patch("own", {"defaultObjectAcl": []})
    objects.put("third", bucket="own")
    assert entries(store, "first") == PROJECT_PRIVATE | {WRITER_OF_ALL: "OWNER"}
    assert entries(store, "second") == {"allUsers": "READER", WRITER_OF_ALL: "OWNER"}
    assert entries(store, "third") == {WRITER_OF_ALL: "OWNER"}


def test_an_ordinary_object_stores_no_list(store, objects):
    assert "acl" not in objects.put("x", bucket="own").properties


def test_a_list_that_is_asked_for_is_given(store, objects):
    objects.put("named", bucket="own", properties={"predefinedAcl": "publicRead"})
    objects.put("whole", bucket="own", properties={"acl": [PUBLIC], "owner": "ann@example.com"})
    assert list(entries(store, "named")) == [WRITER_OF_ALL, "allUsers"]
    assert list(entries(store, "whole")) == ["allUsers", "user-ann@example.com"]
    both = {"acl": [PUBLIC], "predefinedAcl": "private"}
    assert refusal(objects.put, "x", bucket="own", properties=both)[:2] == (409, "conflict")


def test_a_generation_that_replaces_another_begins_anew(store, objects):
    objects.put("x", bucket="own", properties={"predefinedAcl": "publicRead"})
    objects.put("x", bucket="own")
    assert "allUsers" not in entries(store, "x")


def test_each_generation_has_its_list(store, objects):
    store.buckets.patch("own", {"versioning": {"enabled": True}})
    first = objects.put("x", bucket="own")
    objects.put("x", bucket="own")
    key = ObjectKey("own", "x", first.generation)
    changed, _ = store.lists.change(key, with_entry("allUsers", "READER"))
    assert (changed.generation, changed.metageneration) == (first.generation, 2)
    assert "allUsers" in store.lists.read(key)[1]
    assert "allUsers" not in entries(store, "x")


def test_metadata_changes_leave_the_list_alone(store, objects):
    objects.put("x", bucket="own", properties={"predefinedAcl": "publicRead"})
    key = ObjectKey("own", "x")
    store.patch(key, {"contentType": "text/plain"})
    store.update(key, {"contentType": "text/html"}, NO_PRECONDITIONS)
    assert "allUsers" in entries(store, "x")
    store.patch(key, {"predefinedAcl": "private"})
    assert entries(store, "x") == {WRITER_OF_ALL: "OWNER"}


def test_a_copy_has_the_list_of_a_new_object_and_a_moved_one_keeps_its_own(store, objects):
    objects.put("x", bucket="own", properties={"predefinedAcl": "publicRead"})
    copied = objects.store.copy(
        ObjectKey("own", "x"), NO_PRECONDITIONS, NewObject("own", "y", {}), keeps_metadata=True
    )
    asked = NewObject("own", "z", {"predefinedAcl": "publicRead"})
    objects.store.copy(ObjectKey("own", "x"), NO_PRECONDITIONS, asked, keeps_metadata=True)
    objects.store.move(ObjectKey("own", "x"), "moved", NO_PRECONDITIONS)
    assert "acl" not in copied.properties
    assert "allUsers" in entries(store, "z")
    assert "allUsers" in entries(store, "moved")


def test_uniform_access_hides_the_lists_and_gives_them_back(store, objects):
    objects.put("x", bucket="own", properties={"predefinedAcl": "publicRead"})
    store.buckets.change_own_list("own", with_entry("allUsers", "READER"))
    before = own(store), entries(store, "x")
    store.buckets.patch("own", UNIFORM)
    key, edit = ObjectKey("own", "x"), with_entry("allUsers", "READER")
    more = " Read more at https://cloud.google.com/storage/docs/uniform-bucket-level-access"
    told = [
        refusal(store.buckets.own_list, "own"),
        refusal(store.buckets.default_list, "own"),
        refusal(store.buckets.change_own_list, "own", edit),
        refusal(store.buckets.patch, "own", {"defaultObjectAcl": [PUBLIC]}),
        refusal(store.lists.read, key),
        refusal(store.lists.change, key, edit),
        refusal(objects.put, "y", bucket="own", properties={"predefinedAcl": "private"}),
    ]
    assert {found[:2] for found in told} == {(400, "invalid")}
    read = "Cannot get legacy ACL for a bucket that has uniform bucket-level access."
    change = (
        "Cannot use ACL API to update bucket policy when uniform bucket-level access is enabled."
    )
    rest = "for an object when uniform bucket-level access is enabled."
    assert [words.removesuffix(more) for _, _, words in told] == [
        *[read] * 2,
        *[change] * 2,
        f"Cannot get legacy ACL {rest}",
        f"Cannot update access control {rest}",
        f"Cannot insert legacy ACL {rest}",
    ]
    objects.put("y", bucket="own", properties={"acl": []})
    store.buckets.patch(
        "own", {"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": False}}}
    )
    assert (own(store), entries(store, "x")) == before


def test_public_access_prevention_refuses_what_is_new(store, objects):
    objects.put("x", bucket="own", properties={"predefinedAcl": "publicRead"})
    store.buckets.patch("own", PREVENTED)
    edit = with_entry("allAuthenticatedUsers", "READER")
    key = ObjectKey("own", "x")
    for call, *given in (
        (store.buckets.change_own_list, "own", edit),
        (store.buckets.change_default_list, "own", edit),
        (store.buckets.patch, "own", {"acl": [PUBLIC]}),
        (store.lists.change, key, edit),
        (store.patch, key, {"acl": [PUBLIC]}),
    ):
        assert refusal(call, *given)[:2] == (412, "conditionNotMet")
    store.lists.change(key, with_entry("user-ann@example.com", "READER"))
    assert store.roles_of(key, {"allUsers"}) == frozenset()


def test_an_older_name_of_uniform_access_turns_it_on_and_off(store):
    def configure(**fields):
        made = store.buckets.patch("own", {"iamConfiguration": fields})
        return made.properties["iamConfiguration"]["uniformBucketLevelAccess"]

    assert configure(bucketPolicyOnly={"enabled": True})["enabled"] is True
    assert "lockedTime" in configure(publicAccessPrevention="inherited")
    assert configure(bucketPolicyOnly={"enabled": False}) == {"enabled": False}
    assert configure(uniformBucketLevelAccess={"enabled": True})["enabled"] is True


def test_uniform_access_stays_after_90_days(store, objects):
    store.buckets.patch("own", UNIFORM)
    objects.clock.advance(91 * 86400)
    off = {"iamConfiguration": {"bucketPolicyOnly": {"enabled": False}}}
    assert refusal(store.buckets.patch, "own", off)[:2] == (400, "invalid")


def test_a_list_gives_roles(store, objects):
    objects.put("x", bucket="own", properties={"acl": [PUBLIC]})
    store.buckets.change_own_list("own", with_entry("user-ann@example.com", "WRITER"))
    key = ObjectKey("own", "x")
    assert store.roles_of(key, {"allUsers"}) == {"roles/storage.legacyObjectReader"}
    assert store.roles_of(key, {"user:ann@example.com"}) == {"roles/storage.legacyBucketWriter"}
    assert store.roles_of(ObjectKey("own", "nothing"), {"allUsers"}) == frozenset()
    assert store.roles_of(ObjectKey("nowhere", "x"), {"allUsers"}) == frozenset()


def test_the_policy_of_an_object_is_its_list(store, objects):
    stored = objects.put("x", bucket="own", properties={"acl": [PUBLIC], "owner": "a@b.c"})
    key = ObjectKey("own", "x")
    policy = store.lists.policy(key)
    assert policy["resourceId"] == f"projects/_/buckets/own/objects/x#{stored.generation}"
    assert policy["bindings"] == [
        {"role": "roles/storage.legacyObjectOwner", "members": ["user:a@b.c"]},
        {"role": "roles/storage.legacyObjectReader", "members": ["allUsers"]},
    ]
    written = store.lists.set_policy(key, {**policy, "bindings": policy["bindings"][:1]})
    assert entries(store, "x") == {"user-a@b.c": "OWNER"}
    assert refusal(store.lists.set_policy, key, policy)[:2] == (412, "conditionNotMet")
    viewer = {"role": "roles/storage.objectViewer", "members": ["allUsers"]}
    assert refusal(store.lists.set_policy, key, {**written, "bindings": [viewer]})[0] == 400
