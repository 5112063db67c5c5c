"""Where buckets are: regions, pairs of them, continents, and what cannot be."""

import pytest

from localsim.rules.objects.bucket_settings.placement import location_type, shown_placement
from unit.localsim.rules.objects.object_rig import refusal, refusal_code

pytest_plugins = ("unit.localsim.rules.objects.object_fixtures",)

NOWHERE = (400, "invalid", "The specified location constraint is not valid.")


def create(objects, **resource):
    return objects.store.buckets.create("p", "made", resource).properties


@pytest.mark.parametrize(
    ("location", "kind", "rpo"),
    [
        ("us-central1", "region", None),
        ("us-central2", "region", None),
        ("northamerica-northeast2", "region", None),
        ("eu", "multi-region", "DEFAULT"),
        ("nam4", "dual-region", "DEFAULT"),
        ("EUR4", "dual-region", "DEFAULT"),
        ("asia1", "dual-region", "DEFAULT"),
    ],
)
def test_a_location_has_a_type(objects, location, kind, rpo):
    shown = shown_placement(create(objects, location=location))
    assert (shown["location"], shown["locationType"]) == (location.upper(), kind)
    assert shown.get("rpo") == rpo


def test_without_a_location_a_bucket_is_in_the_united_states(objects):
    assert shown_placement(create(objects)) == {
        "location": "US",
        "locationType": "multi-region",
        "rpo": "DEFAULT",
    }


@pytest.mark.parametrize(
    "location", ["us-central99", "us-central01", "us-west4-a", "moon", "", "IN", "US+EU", 5]
)
def test_a_location_that_there_is_not_is_refused(objects, location):
    assert refusal(create, objects, location=location) == NOWHERE


@pytest.mark.parametrize(
    ("location", "regions"),
    [
        ("US", ["US-EAST1", "US-WEST1"]),
        ("eu", ["europe-west1", "europe-west4"]),
        ("IN", ["ASIA-SOUTH1", "ASIA-SOUTH2"]),
    ],
)
def test_a_pair_of_regions_lies_in_its_location(objects, location, regions):
    settings = create(objects, location=location, customPlacementConfig={"dataLocations": regions})
    assert settings["customPlacementConfig"]["dataLocations"] == [each.upper() for each in regions]
    assert settings["location"] == location.upper()
    assert location_type(settings) == "dual-region"


@pytest.mark.parametrize(
    ("named", "location"),
    [
        ("us-east4+us-central1", "US"),
        ("EUROPE-WEST4+EUROPE-WEST1", "EU"),
        ("asia-south1+asia-south2", "IN"),
    ],
)
def test_a_pair_can_be_named_as_the_location(objects, named, location):
    settings = create(objects, location=named)
    assert settings["location"] == location
    assert settings["customPlacementConfig"] == {"dataLocations": named.upper().split("+")}


@pytest.mark.parametrize(
    "regions",
    [
        ["US-EAST1", "EUROPE-WEST1"],
        ["US-EAST1", "US-EAST1"],
        ["US-EAST1"],
        ["US-EAST1", "US-EAST4", "US-WEST1"],
        ["US-EAST1", "US-NOWHERE7"],
    ],
)
def test_a_pair_that_cannot_be_is_refused(objects, regions):
    code, reason, message = refusal(
        create, objects, location="US", customPlacementConfig={"dataLocations": regions}
    )
    assert (code, reason) == (400, "invalid")
    assert message.startswith("Project may not create storageClass STANDARD buckets with")
    assert message.endswith(", ".join(f"data_location {each.lower()}" for each in regions) + ".")


def test_a_bucket_can_lie_in_one_zone(objects):
    zone = {"dataLocations": ["us-east1-b"]}
    settings = create(objects, location="us-east1", customPlacementConfig=zone)
    assert location_type(settings) == "zone"


def test_a_pair_never_changes(objects):
    create(objects, location="us-east4+us-central1")
    patch = objects.store.buckets.patch
    other = {"customPlacementConfig": {"dataLocations": ["US-EAST1", "US-EAST4"]}}
    assert refusal(patch, "made", other)[:2] == (400, "invalid")
    same = {"customPlacementConfig": {"dataLocations": ["us-central1", "us-east4"]}}
    assert location_type(patch("made", same).properties) == "dual-region"
    updated = objects.store.buckets.update("made", {"labels": {"a": "b"}})
    assert location_type(updated.properties) == "dual-region"


def test_only_pairs_are_replicated_by_turbo(objects):
    create(objects, location="NAM4")
    turbo = {"rpo": "ASYNC_TURBO"}
    patched = objects.store.buckets.patch("made", turbo)
    assert shown_placement(patched.properties)["rpo"] == "ASYNC_TURBO"
    assert refusal_code(objects.store.buckets.patch, "box", turbo) == 400
    assert refusal_code(objects.store.buckets.patch, "made", {"rpo": "SOON"}) == 400
