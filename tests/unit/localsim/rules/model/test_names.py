"""Names and ids: which are understood, which refused, and with which details."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.model.resource_names import (
    MAX_ID_CHARS,
    ProjectNames,
    checked_id,
    checked_request_id,
)
from unit.localsim.rules.cloud_rig import ZONE

PROJECT = ProjectNames("demo", 7, lambda zone: zone == "us-east5-b", lambda _: False)


def refused(call, *arguments):
    with pytest.raises(CloudError) as refusal:
        call(*arguments)
    return refusal.value


def test_the_project_may_be_its_number():
    assert PROJECT.zone("projects/7/locations/us-west4-a") == ZONE
    assert PROJECT.resource(f"{ZONE.replace('demo', '7')}/nodes/a", "nodes") == f"{ZONE}/nodes/a"
    assert PROJECT.whole("projects/7") == "projects/demo"


def test_all_zones_are_for_lists_only():
    everywhere = "projects/demo/locations/-"
    assert PROJECT.parent(everywhere) == everywhere
    assert refused(PROJECT.zone, everywhere).code == Code.INVALID_ARGUMENT
    assert refused(PROJECT.resource, f"{everywhere}/nodes/a", "nodes").code == Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/",
        "projects/demo",
        f"{ZONE}/",
        f"{ZONE}/nodes",
        "locations/us-west4-a",
        f"/{ZONE}",
        "x" * 99,
    ],
)
def test_a_malformed_name_is_an_invalid_argument(name):
    assert refused(PROJECT.parent, name).code == Code.INVALID_ARGUMENT
    assert refused(PROJECT.resource, f"{name}/nodes/a/b", "nodes").code == Code.INVALID_ARGUMENT


def test_a_zone_that_the_service_does_not_have():
    error = refused(PROJECT.parent, "projects/demo/locations/mars-1a")
    assert error.code == Code.INVALID_ARGUMENT
    assert error.message.startswith("The requested zone 'mars-1a' is not supported. [EID: 0x")


def test_a_zone_that_is_not_open_to_the_project():
    error = refused(PROJECT.parent, "projects/demo/locations/us-east5-b")
    assert error.code == Code.PERMISSION_DENIED
    assert error.message == "Permission denied on 'locations/us-east5-b' (or it may not exist)."
    assert error.info.reason == "LOCATION_POLICY_VIOLATED"
    assert error.info.metadata["location"] == "us-east5-b"


def test_another_project():
    error = refused(PROJECT.parent, "projects/other/locations/-")
    assert (error.code, error.message) == (
        Code.PERMISSION_DENIED,
        "Permission denied on resource project other.",
    )
    assert error.info.reason == "CONSUMER_INVALID"
    assert error.info.metadata["consumer"] == "projects/other"


@pytest.mark.parametrize("text", ["a", "-a", "A_b.c~d+e%f", "0", "x" * MAX_ID_CHARS, "a..b"])
def test_ids_of_the_documented_pattern_are_taken(text):
    assert checked_id("node id", text) == text


@pytest.mark.parametrize(
    "text", ["", "a/b", "a b", "é", ".", "..", "a\n", "x" * (MAX_ID_CHARS + 1)]
)
def test_other_ids_are_invalid_arguments(text):
    assert refused(checked_id, "node id", text).code == Code.INVALID_ARGUMENT


@given(st.uuids())
def test_a_request_id_is_a_uuid_in_either_case(request_id):
    assert checked_request_id(str(request_id).upper()) == str(request_id)


@pytest.mark.parametrize(
    "text",
    ["x", "1", "00000000-0000-0000-0000-000000000000", "{12345678-1234-5678-1234-567812345678}"],
)
def test_any_other_request_id_is_an_invalid_argument(text):
    assert refused(checked_request_id, text).code == Code.INVALID_ARGUMENT
    assert checked_request_id("") == ""
