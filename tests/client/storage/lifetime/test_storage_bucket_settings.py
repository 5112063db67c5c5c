"""Where buckets are and how they choose classes, through Google's own client."""

import pytest
from google.api_core import exceptions
from google.cloud.storage import constants

from localsim.accounts import project_number

pytest_plugins = ("client.storage.storage_fixtures",)


@pytest.fixture
def client(own_bucket):
    return own_bucket.client


def test_autoclass_has_its_defaults_and_moments(own_bucket):
    own_bucket.reload()
    assert (own_bucket.autoclass_enabled, own_bucket.autoclass_toggle_time) == (False, None)
    own_bucket.autoclass_enabled = True
    own_bucket.patch()
    assert own_bucket.autoclass_terminal_storage_class == "NEARLINE"
    assert own_bucket.autoclass_terminal_storage_class_update_time is not None
    blob = own_bucket.blob("x")
    blob.storage_class = "COLDLINE"
    blob.upload_from_string(b"x")
    assert blob.storage_class == "STANDARD"
    toggled = own_bucket.autoclass_toggle_time
    own_bucket.autoclass_enabled = False
    own_bucket.patch()
    assert own_bucket.autoclass_enabled is False
    assert own_bucket.autoclass_toggle_time > toggled


def test_a_bucket_lies_in_two_regions(client, box):
    regions = ["US-EAST1", "US-WEST1"]
    made = client.create_bucket(f"{box.name}-pair", location="US", data_locations=regions)
    assert (made.location, made.location_type) == ("US", constants.DUAL_REGION_LOCATION_TYPE)
    assert (made.data_locations, made.rpo) == (regions, "DEFAULT")
    layout = box.request("GET", f"/storage/v1/b/{made.name}/storageLayout").json
    assert layout["customPlacementConfig"] == {"dataLocations": regions}
    with pytest.raises(exceptions.BadRequest, match="with locationConstraint EU and data_location"):
        client.create_bucket(f"{box.name}-far", location="EU", data_locations=regions)


def test_a_pair_is_replicated_by_turbo(client, box):
    made = client.create_bucket(f"{box.name}-turbo", location="NAM4")
    assert (made.location_type, made.rpo) == ("dual-region", constants.RPO_DEFAULT)
    made.rpo = constants.RPO_ASYNC_TURBO
    made.patch()
    assert client.get_bucket(made.name).rpo == constants.RPO_ASYNC_TURBO


def test_a_location_that_there_is_not_is_refused(client, box):
    with pytest.raises(exceptions.BadRequest, match="location constraint is not valid"):
        client.create_bucket(f"{box.name}-nowhere", location="us-nowhere1")


def test_a_bucket_tells_the_number_of_its_project(own_bucket):
    own_bucket.reload()
    assert own_bucket.project_number == project_number("p")


def test_a_lifecycle_comes_back_as_it_was_set(own_bucket):
    own_bucket.reload()
    own_bucket.add_lifecycle_delete_rule(age=42, matches_prefix=["a"], number_of_newer_versions=3)
    own_bucket.add_lifecycle_set_storage_class_rule("COLDLINE", matches_storage_class=["NEARLINE"])
    own_bucket.add_lifecycle_abort_incomplete_multipart_upload_rule(age=42)
    wanted = [dict(rule) for rule in own_bucket.lifecycle_rules]
    own_bucket.patch()
    assert [dict(rule) for rule in own_bucket.lifecycle_rules] == wanted
    own_bucket.add_lifecycle_delete_rule(age=-1)
    with pytest.raises(exceptions.BadRequest, match="must not be negative"):
        own_bucket.patch()
