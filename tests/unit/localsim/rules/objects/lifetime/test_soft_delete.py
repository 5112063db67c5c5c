"""What is deleted or replaced stays for the days of its bucket's policy, and comes back."""

import pytest

from localsim.rules.objects.listing import ListQuery
from localsim.rules.objects.object_copies import ComposeSource
from localsim.rules.objects.restores import BulkProgress, BulkRestore
from localsim.rules.objects.storage_model import (
    NO_PRECONDITIONS,
    NewObject,
    ObjectKey,
    Preconditions,
)
from localsim.rules.objects.store import ObjectStore
from unit.localsim.rules.objects.object_rig import NOW_S, refusal

pytest_plugins = ("unit.localsim.rules.objects.object_fixtures",)

DAY_S = 86400
LARGE = bytes(200_000)
"""A body in a file of its own."""


def set_policy(objects, days=7):
    policy = {"softDeletePolicy": {"retentionDurationSeconds": days * DAY_S}}
    objects.store.buckets.patch("box", policy)


@pytest.fixture
def soft(objects):
    """A store whose bucket keeps what is deleted for a week."""
    set_policy(objects)
    return objects


def kept(objects, bucket="box", **query):
    page = objects.store.list(bucket, ListQuery(soft_deleted=True, **query))
    return [(stored.name, stored.generation) for stored in page.items]


def restore(objects, name, generation, **conditions):
    key = ObjectKey("box", name, generation)
    return objects.store.restores.restore(key, Preconditions(**conditions))


def bulk(objects, **wanted):
    before, progress = BulkProgress(), None
    while progress is None or not progress.is_done:
        progress = objects.store.restores.restore_some(BulkRestore("box", **wanted), before)
        before = progress
    return progress.succeeded, progress.failed


def files(objects):
    return len(objects.store.rows.files())


def test_without_a_policy_nothing_is_kept(objects):
    stored = objects.put("a", LARGE)
    objects.delete("a")
    assert (kept(objects), files(objects)) == ([], 0)
    words = (412, "softDeletePolicyNotSet", "Bucket does not have a soft delete policy.")
    assert refusal(restore, objects, "a", stored.generation) == words


def test_what_is_deleted_or_replaced_is_kept_with_its_times(soft):
    first = soft.put("a", b"1")
    second = soft.put("a", b"2")
    soft.delete("a")
    assert kept(soft) == [("a", first.generation), ("a", second.generation)]
    shown = soft.store.restores.get(ObjectKey("box", "a", first.generation))
    assert shown.properties["softDeleteTime"] == "2026-08-10T22:13:20.000Z"
    assert shown.properties["hardDeleteTime"] == "2026-08-17T22:13:20.000Z"
    assert soft.names() == []


def test_restored_it_is_a_new_generation_of_the_same_bytes_and_metadata(soft):
    old = soft.put("a", LARGE, properties={"contentType": "text/x", "metadata": {"k": "v"}})
    soft.patch("a", {"contentLanguage": "de"})
    soft.delete("a")
    soft.clock.advance(DAY_S)
    new = restore(soft, "a", old.generation)
    assert new.generation > old.generation
    assert (new.metageneration, new.created_s) == (1, NOW_S + DAY_S)
    assert (new.properties["metadata"], new.properties["contentLanguage"]) == ({"k": "v"}, "de")
    assert "softDeleteTime" not in new.properties
    assert (soft.read("a"), kept(soft), files(soft)) == (LARGE, [], 1)


def test_a_small_body_comes_back_too(soft):
    old = soft.put("a", b"abc")
    soft.delete("a")
    restore(soft, "a", old.generation)
    assert soft.read("a") == b"abc"
    ((rows,),) = soft.store.database.execute("SELECT count(*) FROM storage_bodies").fetchall()
    assert rows == 1


def test_a_restore_replaces_what_is_live_by_the_same_rules(soft):
    old = soft.put("a", b"old")
    live = soft.put("a", b"live")
    assert refusal(restore, soft, "a", old.generation, generation_match=0)[0] == 412
    restore(soft, "a", old.generation, generation_match=live.generation)
    assert kept(soft) == [("a", live.generation)]
    soft.patch("a", {"temporaryHold": True})
    assert refusal(restore, soft, "a", live.generation)[:2] == (403, "forbidden")
    assert soft.read("a") == b"old"


def test_what_is_live_or_noncurrent_is_not_restored(soft):
    live = soft.put("a")
    words = (
        412,
        "objectNotSoftDeleted",
        "Object is not soft deleted and is either live or noncurrent.",
    )
    assert refusal(restore, soft, "a", live.generation) == words
    assert refusal(restore, soft, "a", 7) == (404, "notFound", "No such object: box/a")


def test_with_versions_only_the_end_of_a_version_is_soft(soft):
    soft.store.buckets.patch("box", {"versioning": {"enabled": True}})
    stored = soft.put("a")
    soft.delete("a")
    assert kept(soft) == []
    soft.delete("a", stored.generation)
    assert kept(soft) == [("a", stored.generation)]
    restore(soft, "a", stored.generation)
    assert soft.get("a").deleted_s is None


def test_composed_sources_are_kept_and_moved_objects_live_on(soft):
    part = soft.put("part", b"p")
    soft.store.compose(NewObject("box", "whole", {}), [ComposeSource("part")], delete_sources=True)
    soft.store.move(ObjectKey("box", "whole"), "moved", NO_PRECONDITIONS)
    assert kept(soft) == [("part", part.generation)]


def test_it_goes_for_good_when_the_clock_says_so_and_frees_its_bytes(soft):
    soft.put("a", LARGE)
    soft.put("small", b"x")
    soft.delete("a")
    soft.delete("small")
    assert soft.store.next_hard_deletion_s() == NOW_S + 7 * DAY_S
    soft.clock.advance(7 * DAY_S - 1)
    soft.store.hard_delete()
    assert (len(kept(soft)), files(soft)) == (2, 1)
    soft.clock.advance(1)
    assert kept(soft) == []
    soft.store.hard_delete()
    assert (files(soft), soft.store.next_hard_deletion_s()) == (0, None)


def test_a_changed_policy_is_for_what_is_deleted_from_now_on(soft):
    first, second = soft.put("a"), soft.put("b")
    soft.delete("a")
    set_policy(soft, days=30)
    soft.delete("b")
    soft.clock.advance(8 * DAY_S)
    assert kept(soft) == [("b", second.generation)]
    soft.store.buckets.patch("box", {"softDeletePolicy": {"retentionDurationSeconds": 0}})
    assert restore(soft, "b", second.generation).generation > first.generation


def test_listings_fold_page_and_glob(soft):
    stored = [soft.put(name) for name in ("d/1", "d/1", "d/2", "e")]
    for name in ("d/1", "d/2", "e"):
        soft.delete(name)
    page = soft.store.list("box", ListQuery(soft_deleted=True, delimiter="/"))
    assert ([each.name for each in page.items], page.prefixes) == (["e"], ["d/"])
    page = soft.store.list("box", ListQuery(soft_deleted=True, limit=1))
    assert (page.next_start, page.next_generation) == ("d/1", stored[1].generation)
    assert [name for name, _ in kept(soft, match_glob="**/1")] == ["d/1", "d/1"]
    assert refusal(kept, soft, versions=True)[:2] == (400, "invalid")


def test_in_bulk_the_latest_generation_of_each_name_comes_back(soft):
    soft.put("a", b"1")
    soft.put("a", b"2")
    soft.put("logs/b", b"3")
    soft.delete("a")
    soft.delete("logs/b")
    assert bulk(soft, globs=("logs/**",)) == (1, 0)
    assert bulk(soft) == (1, 0)
    assert (soft.read("a"), soft.read("logs/b")) == (b"2", b"3")
    assert bulk(soft) == (0, 0)
    assert bulk(soft, overwrites=True) == (1, 0)
    assert soft.read("a") == b"1"


def test_in_bulk_by_time_and_past_what_is_held(soft):
    soft.put("early")
    soft.delete("early")
    soft.clock.advance(100)
    soft.put("late", b"1")
    soft.put("late", b"2")
    soft.patch("late", {"temporaryHold": True})
    assert bulk(soft, deleted_after_s=NOW_S + 50, overwrites=True) == (0, 1)
    assert bulk(soft, created_after_s=NOW_S + 50) == (0, 0)
    assert bulk(soft, deleted_before_s=NOW_S + 50) == (1, 0)
    assert soft.names() == ["early", "late"]


def test_in_bulk_a_bucket_must_have_kept_something(objects):
    words = (400, "SoftDeletePolicyRequired", "Bucket does not have a soft delete policy.")
    assert refusal(objects.store.restores.count, "box") == words


def test_of_a_tree_each_has_a_token(soft):
    stored = soft.put("a")
    bucket = soft.store.buckets.get("box")
    tree = type(bucket)(
        bucket.name,
        bucket.project,
        bucket.generation,
        bucket.metageneration,
        {**bucket.properties, "hierarchicalNamespace": {"enabled": True}},
        bucket.created_s,
        bucket.updated_s,
    )
    with soft.store.database.change():
        soft.store.rows.delete(tree, stored)
    key = ObjectKey("box", "a", stored.generation)
    token = soft.store.restores.get(key).properties["restoreToken"]
    assert refusal(soft.store.restores.get, key, NO_PRECONDITIONS, "other")[0] == 404
    soft.store.restores.restore(key, token=token)


def test_it_is_still_there_after_a_restart(soft, tmp_path):
    stored = soft.put("a", LARGE)
    soft.delete("a")
    soft.store.close()
    soft.store = ObjectStore(tmp_path / "storage", soft.clock)
    restore(soft, "a", stored.generation)
    assert soft.read("a") == LARGE


def test_a_reset_forgets_it(soft):
    soft.put("a", LARGE)
    soft.delete("a")
    soft.store.begin_again("p", "box", {})
    assert (kept(soft), soft.store.next_hard_deletion_s()) == ([], None)


def test_a_state_from_before_soft_delete_opens(objects, tmp_path):
    stored = objects.put("a", LARGE)
    with objects.store.database.change():
        for table in ("soft_deleted", "deleted_buckets", "operations"):
            objects.store.database.execute(f"DROP TABLE storage_{table}")
    objects.store.close()
    objects.store = ObjectStore(tmp_path / "storage", objects.clock)
    set_policy(objects)
    objects.delete("a")
    restore(objects, "a", stored.generation)
    assert objects.read("a") == LARGE
