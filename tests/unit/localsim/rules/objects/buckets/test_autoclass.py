"""Buckets that choose the class of their objects: defaults, moments, and what does not go along."""

import pytest

from localsim.rules.objects.storage_model import ObjectKey
from unit.localsim.rules.objects.object_rig import refusal

pytest_plugins = ("unit.localsim.rules.objects.object_fixtures",)

DAY_S = 86400
SET_CLASS = {
    "rule": [
        {"action": {"type": "SetStorageClass", "storageClass": "NEARLINE"}, "condition": {"age": 1}}
    ]
}
BY_CLASS = {
    "rule": [{"action": {"type": "Delete"}, "condition": {"matchesStorageClass": ["NEARLINE"]}}]
}


def patch(objects, **change):
    return objects.store.buckets.patch("box", change).properties.get("autoclass")


def test_it_goes_to_nearline_by_default_and_tells_since_when(objects):
    moment = "2026-08-10T22:13:20.000Z"
    assert patch(objects, autoclass={"enabled": True}) == {
        "enabled": True,
        "toggleTime": moment,
        "terminalStorageClass": "NEARLINE",
        "terminalStorageClassUpdateTime": moment,
    }


def test_each_moment_is_that_of_its_own_last_change(objects):
    first = patch(objects, autoclass={"enabled": True})
    objects.clock.advance(DAY_S)
    colder = patch(objects, autoclass={"terminalStorageClass": "ARCHIVE"})
    assert colder["toggleTime"] == first["toggleTime"]
    assert colder["terminalStorageClassUpdateTime"] > first["terminalStorageClassUpdateTime"]
    objects.clock.advance(DAY_S)
    assert patch(objects, autoclass={"enabled": True}) == colder
    off = patch(objects, autoclass={**colder, "enabled": False})
    assert (off["enabled"], off["toggleTime"] > first["toggleTime"]) == (False, True)
    assert off.keys() == {"enabled", "toggleTime"}
    assert patch(objects, autoclass=None) is None


def test_its_objects_are_standard_whatever_they_ask_for(objects):
    patch(objects, autoclass={"enabled": True})
    assert (
        "storageClass" not in objects.put("a", properties={"storageClass": "COLDLINE"}).properties
    )
    copied = objects.copy("a", "b", properties={"storageClass": "NEARLINE"})
    assert "storageClass" not in copied.properties


def test_what_was_deleted_is_restored_as_standard(objects):
    policy = {"softDeletePolicy": {"retentionDurationSeconds": 7 * DAY_S}}
    objects.store.buckets.patch("box", policy)
    cold = objects.put("a", properties={"storageClass": "COLDLINE"})
    objects.delete("a")
    patch(objects, autoclass={"enabled": True})
    restored = objects.store.restores.restore(ObjectKey("box", "a", cold.generation))
    assert restored.properties.get("storageClass", "STANDARD") == "STANDARD"


@pytest.mark.parametrize(
    "other",
    [{"storageClass": "NEARLINE"}, {"lifecycle": SET_CLASS}, {"lifecycle": BY_CLASS}],
)
def test_what_sets_classes_does_not_go_with_it(objects, other):
    both = {"autoclass": {"enabled": True}, **other}
    assert refusal(objects.store.buckets.create, "p", "made", both)[:2] == (400, "invalid")
    patch(objects, autoclass={"enabled": True})
    assert refusal(patch, objects, **other)[:2] == (400, "invalid")
    patch(objects, autoclass={"enabled": False})
    patch(objects, **other)


@pytest.mark.parametrize(
    "value", [True, {"enabled": "yes"}, {"enabled": True, "terminalStorageClass": "STANDARD"}]
)
def test_settings_that_do_not_read_are_refused(objects, value):
    assert refusal(patch, objects, autoclass=value)[:2] == (400, "invalid")


def test_settings_of_an_older_state_get_their_moments(objects):
    """Which kept what a client had sent."""
    bucket = objects.store.buckets.get("box")
    old = {"enabled": True, "toggleTime": "2026-01-01T00:00:00.000Z"}
    kept = {**bucket.properties, "autoclass": {**old, "terminalStorageClass": "ARCHIVE"}}
    with objects.store.database.change():
        objects.store.buckets._change(bucket, kept)
    again = {"enabled": True, "terminalStorageClass": "ARCHIVE", "toggleTime": "ignored"}
    shown = patch(objects, autoclass=again)
    assert shown["toggleTime"] == old["toggleTime"]
    assert shown["terminalStorageClassUpdateTime"] == "2026-08-10T22:13:20.000Z"
