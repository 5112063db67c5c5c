"""The retention of a single object: what it refuses, and who may change it how."""

import pytest

from localsim.rules.objects.listing import ListQuery
from localsim.rules.objects.properties import writable_properties
from localsim.rules.objects.storage_model import NO_PRECONDITIONS, ObjectKey, instant
from unit.localsim.rules.objects.object_rig import NOW_S, refusal, refusal_code

pytest_plugins = ("unit.localsim.rules.objects.object_fixtures",)

DAY_S = 86400
SHORTENED = (403, "forbidden")


def until(days):
    return instant(NOW_S + days * DAY_S)


def retention(mode="Unlocked", days=5):
    return {"retention": {"mode": mode, "retainUntilTime": until(days)}}


@pytest.fixture
def lockable(objects):
    """A store whose bucket `box` lets objects have a retention."""
    objects.store.buckets.patch("box", {"objectRetention": {"mode": "Enabled"}})
    return objects


def patch(objects, change, *, overrides=False):
    key = ObjectKey("box", "a")
    given = writable_properties(change)
    return objects.store.patch(key, given, overrides=overrides).properties.get("retention")


def test_a_retained_object_is_neither_deleted_nor_replaced(lockable):
    lockable.put("a", b"1", properties=retention(days=5))
    lockable.put("other")
    assert lockable.get("a").properties["retentionExpirationTime"] == until(5)
    (shown,) = [each for each in lockable.store.list("box", ListQuery()).items if each.name == "a"]
    assert shown.properties["retentionExpirationTime"] == until(5)
    move = lockable.store.move
    for change in (
        lambda: lockable.delete("a"),
        lambda: lockable.put("a", b"2"),
        lambda: lockable.copy("other", "a"),
        lambda: move(ObjectKey("box", "a"), "b", NO_PRECONDITIONS),
    ):
        assert refusal(change)[:2] == (403, "retentionPolicyNotMet")
    lockable.clock.advance(5 * DAY_S)
    moved = move(ObjectKey("box", "a"), "b", NO_PRECONDITIONS)
    assert "retention" not in moved.properties
    lockable.delete("b")


def test_the_later_end_of_bucket_and_object_counts(lockable):
    lockable.store.buckets.patch("box", {"retentionPolicy": {"retentionPeriod": 7 * DAY_S}})
    lockable.put("a", properties=retention(days=5))
    lockable.put("b", properties=retention(days=9))
    ends = [lockable.get(name).properties["retentionExpirationTime"] for name in ("a", "b")]
    assert ends == [until(7), until(9)]


def test_a_copy_is_not_retained(lockable):
    lockable.put("a", properties=retention())
    lockable.copy("a", "copy")
    lockable.delete("copy")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (retention(days=-1), "retainUntilTime must be in the future, and within 100 years."),
        (retention(days=40_000), "retainUntilTime must be in the future, and within 100 years."),
        ({"retention": {"mode": "Locked"}}, "A retention must have a mode and a retainUntilTime."),
        (
            {"retention": {"retainUntilTime": until(1)}},
            "A retention must have a mode and a retainUntilTime.",
        ),
        (
            {"eventBasedHold": True, **retention()},
            "An object cannot have a retention and an event-based hold.",
        ),
    ],
)
def test_a_retention_that_cannot_be_is_refused(lockable, change, message):
    words = (400, "invalid", message)
    assert refusal(lockable.put, "a", properties=change) == words
    lockable.put("a")
    assert refusal(patch, lockable, change) == words


@pytest.mark.parametrize(
    "value",
    [
        "Locked",
        {"mode": "Frozen", "retainUntilTime": until(1)},
        {"mode": "Locked", "retainUntilTime": "tomorrow"},
        {"mode": "Locked", "retainUntilTime": "2030-01-01T00:00:00"},
        {"mode": "Locked", "retainUntilTime": 5},
        {"mode": "Locked", "retainUntilTime": "9999-12-31T23:59:59-23:59"},
    ],
)
def test_a_retention_that_does_not_read_is_refused(value):
    assert refusal_code(writable_properties, {"retention": value}) == 400


def test_the_bucket_must_be_made_for_it(objects):
    assert refusal(objects.put, "a", properties=retention()) == (
        400,
        "invalid",
        "Object retention is not enabled for bucket 'box'.",
    )


def test_an_unlocked_one_is_prolonged_freely_and_shortened_on_purpose(lockable):
    lockable.put("a", properties=retention(days=5))
    assert patch(lockable, retention(days=9))["retainUntilTime"] == until(9)
    for less in (retention(days=6), retention("Locked", days=9), {"retention": None}):
        assert refusal(patch, lockable, less)[:2] == SHORTENED
    assert patch(lockable, retention(days=6), overrides=True)["retainUntilTime"] == until(6)
    cleared = {"retention": {"mode": None, "retainUntilTime": None}}
    assert patch(lockable, cleared, overrides=True) is None
    lockable.delete("a")


def test_a_locked_one_is_only_prolonged_by_anybody(lockable):
    lockable.put("a", properties=retention("Locked", days=5))
    for less in (retention("Locked", days=4), retention(days=9), {"retention": None}):
        assert refusal(patch, lockable, less, overrides=True)[:2] == SHORTENED
    assert patch(lockable, retention("Locked", days=6)) == retention("Locked", days=6)["retention"]
    lockable.clock.advance(6 * DAY_S)
    assert patch(lockable, {"retention": None}, overrides=True) is None


def test_a_patch_of_one_field_leaves_the_other(lockable):
    lockable.put("a", properties=retention(days=5))
    later = {"retention": {"retainUntilTime": until(6)}}
    assert patch(lockable, later) == retention(days=6)["retention"]
    locked = {"retention": {"mode": "Locked"}}
    assert patch(lockable, locked, overrides=True) == retention("Locked", days=6)["retention"]


def test_an_update_that_leaves_it_out_removes_it(lockable):
    lockable.put("a", properties=retention())
    update, key = lockable.store.update, ObjectKey("box", "a")
    assert refusal(update, key, {}, NO_PRECONDITIONS)[:2] == SHORTENED
    updated = update(key, {}, NO_PRECONDITIONS, overrides=True)
    assert "retention" not in updated.properties


def test_other_metadata_of_a_retained_object_changes_freely(lockable):
    lockable.put("a", properties=retention())
    lockable.patch("a", {"contentType": "text/x"})
    assert refusal(patch, lockable, {"eventBasedHold": True})[:2] == (400, "invalid")


def test_once_on_it_is_on_for_ever(lockable):
    for change in ({"mode": "Disabled"}, None):
        lockable.store.buckets.patch("box", {"objectRetention": change})
    updated = lockable.store.buckets.update("box", {})
    assert updated.properties["objectRetention"] == {"mode": "Enabled"}
    assert refusal_code(lockable.store.buckets.create, "p", "x-y", {"objectRetention": 5}) == 400
    bad = {"objectRetention": {"mode": "Perhaps"}}
    assert refusal_code(lockable.store.buckets.create, "p", "x-y", bad) == 400


def test_what_was_retained_is_restored_without_it(lockable):
    policy = {"softDeletePolicy": {"retentionDurationSeconds": 7 * DAY_S}}
    lockable.store.buckets.patch("box", policy)
    stored = lockable.put("a", properties=retention(days=1))
    lockable.clock.advance(DAY_S)
    lockable.delete("a")
    restored = lockable.store.restores.restore(ObjectKey("box", "a", stored.generation))
    assert "retention" not in restored.properties
