"""Holds and retention: what may not be deleted, replaced or moved, and until when."""

import pytest

from localsim.rules.objects.listing import ListQuery
from localsim.rules.objects.object_copies import ComposeSource
from localsim.rules.objects.storage_model import NO_PRECONDITIONS, NewObject, ObjectKey
from unit.localsim.rules.objects.object_rig import NOW_S, refusal, refusal_code

pytest_plugins = ("unit.localsim.rules.objects.object_fixtures",)


def retain(objects, period_s):
    objects.store.buckets.patch("box", {"retentionPolicy": {"retentionPeriod": period_s}})


def move(objects, source, target):
    return objects.store.move(ObjectKey("box", source), target, NO_PRECONDITIONS)


def compose(objects, target, *sources, **options):
    found = [ComposeSource(name) for name in sources]
    return objects.store.compose(NewObject("box", target, {}), found, **options)


@pytest.fixture
def kept(objects):
    """A store whose object `kept` is under a temporary hold."""
    objects.put("kept", b"old", properties={"temporaryHold": True})
    objects.put("other", b"new")
    return objects


@pytest.mark.parametrize(
    "change",
    [
        lambda objects: objects.delete("kept"),
        lambda objects: objects.delete("kept", objects.get("kept").generation),
        lambda objects: objects.put("kept", b"new"),
        lambda objects: objects.copy("other", "kept"),
        lambda objects: objects.copy("kept", "kept"),
        lambda objects: compose(objects, "kept", "other"),
        lambda objects: move(objects, "kept", "elsewhere"),
        lambda objects: move(objects, "other", "kept"),
        lambda objects: compose(objects, "whole", "kept", delete_sources=True),
    ],
)
def test_under_a_hold_an_object_stays(kept, change):
    assert refusal(change, kept) == (
        403,
        "forbidden",
        "Object 'box/kept' is under active Temporary hold and cannot be deleted, overwritten or"
        " archived until hold is removed.",
    )
    assert kept.read("kept") == b"old"
    assert kept.names() == ["kept", "other"]


def test_a_hold_is_set_and_released_by_a_patch(objects):
    objects.put("a")
    objects.patch("a", {"eventBasedHold": True})
    assert "Event-Based hold" in refusal(objects.delete, "a")[2]
    assert objects.patch("a", {"eventBasedHold": False}).properties["eventBasedHold"] is False
    objects.delete("a")


def test_a_condition_is_checked_before_a_hold(kept):
    assert refusal_code(kept.delete, "kept", generation_match=1) == 412


def test_what_is_held_is_not_archived_either(kept):
    kept.store.buckets.patch("box", {"versioning": {"enabled": True}})
    assert refusal_code(kept.put, "kept", b"new") == 403


def test_a_bucket_can_hold_all_that_is_new(objects):
    objects.put("before")
    objects.store.buckets.patch("box", {"defaultEventBasedHold": True})
    assert objects.put("held").properties["eventBasedHold"] is True
    assert objects.copy("before", "copy").properties["eventBasedHold"] is True
    objects.put("free", properties={"eventBasedHold": False})
    objects.delete("free")
    objects.delete("before")


def test_a_copy_does_not_inherit_a_hold(kept):
    kept.copy("kept", "copy")
    kept.delete("copy")


def test_an_object_is_kept_for_the_period_of_its_bucket(objects):
    objects.put("a", b"1")
    retain(objects, 3600)
    assert refusal(objects.delete, "a") == (
        403,
        "retentionPolicyNotMet",
        "Object 'box/a' is subject to bucket's retention policy or object retention and cannot be"
        " deleted or overwritten until 2026-08-10T23:13:20.000000+00:00",
    )
    assert refusal_code(objects.put, "a", b"2") == 403
    assert refusal_code(move, objects, "a", "b") == 403
    objects.patch("a", {"contentType": "text/plain"})
    objects.clock.advance(3600)
    objects.put("a", b"2")


def test_the_end_of_the_retention_is_shown(objects):
    objects.put("a")
    assert "retentionExpirationTime" not in objects.get("a").properties
    retain(objects, 60)
    shown = "2026-08-10T22:14:20.000Z"
    (listed,) = objects.store.list("box", ListQuery()).items
    assert listed.properties["retentionExpirationTime"] == shown
    assert objects.get("a").properties["retentionExpirationTime"] == shown
    objects.store.buckets.patch("box", {"retentionPolicy": None})
    patched = objects.patch("a", {"contentType": "a/b"})
    assert patched.properties == {"contentType": "a/b"}
    objects.delete("a")


def test_an_event_based_hold_defers_the_retention(objects):
    retain(objects, 60)
    objects.put("a", properties={"eventBasedHold": True})
    assert "retentionExpirationTime" not in objects.get("a").properties
    objects.clock.advance(3600)
    objects.patch("a", {"eventBasedHold": False})
    objects.patch("a", {"contentType": "a/b"})
    assert refusal(objects.delete, "a")[1] == "retentionPolicyNotMet"
    objects.clock.advance(60)
    objects.delete("a")
    assert objects.clock.now() == NOW_S + 3660


def test_a_custom_time_only_goes_forward(objects):
    objects.put("a", properties={"customTime": "2026-01-02T00:00:00Z"})
    assert refusal_code(objects.patch, "a", {"customTime": "2026-01-01T00:00:00Z"}) == 400
    assert refusal_code(objects.patch, "a", {"customTime": None}) == 400
    objects.patch("a", {"customTime": "2026-01-03T00:00:00+01:00"})
