"""HMAC keys and the service account of a project, through Google's own client."""

import json
import os

import pytest
from google.api_core import exceptions
from google.cloud.storage.hmac_key import HMACKeyMetadata

pytest_plugins = ("client.storage.storage_fixtures",)

ROBOT = "robot@p.iam.gserviceaccount.com"


@pytest.fixture
def owner(own_bucket):
    return own_bucket.client


def test_a_key_from_make_to_delete(owner):
    made, secret = owner.create_hmac_key(ROBOT)
    assert (len(secret), made.project, made.service_account_email) == (40, "p", ROBOT)
    seen = owner.get_hmac_key_metadata(made.access_id)
    assert (seen, seen.etag, seen.state) == (made, made.etag, "ACTIVE")
    assert secret not in json.dumps(seen._properties)
    with pytest.raises(exceptions.BadRequest, match="Cannot delete keys in ACTIVE state"):
        seen.delete()
    seen.state = HMACKeyMetadata.INACTIVE_STATE
    seen.update()
    seen.delete()
    assert made not in owner.list_hmac_keys()
    (deleted,) = [each for each in owner.list_hmac_keys(show_deleted_keys=True) if each == made]
    assert deleted.state == "DELETED"
    with pytest.raises(exceptions.NotFound, match="Access ID not found in project"):
        seen.update()


def test_keys_of_one_account_come_page_by_page(owner):
    email = f"pages-{os.urandom(3).hex()}@p.iam.gserviceaccount.com"
    made = {owner.create_hmac_key(email)[0].access_id for _ in range(3)}
    path = f"/storage/v1/projects/p/hmacKeys?serviceAccountEmail={email}&maxResults=2"
    url = f"{owner._connection.API_BASE_URL}{path}"
    first = owner._http.get(url).json()
    second = owner._http.get(f"{url}&pageToken={first['nextPageToken']}").json()
    assert "nextPageToken" not in second
    assert {each["accessId"] for each in first["items"] + second["items"]} == made
    assert {each.access_id for each in owner.list_hmac_keys(service_account_email=email)} == made
    with pytest.raises(exceptions.NotFound, match="Service Account 'ann@example' not found"):
        owner.create_hmac_key("ann@example")


def test_an_update_is_refused_under_a_stale_etag(module_storage, owner):
    made, _ = owner.create_hmac_key(ROBOT)
    path = f"/storage/v1{made.path}"

    def put(document):
        body = json.dumps(document).encode()
        return module_storage.request("PUT", path, body, Content_Type="application/json")

    off = put({"state": "INACTIVE", "etag": made.etag})
    assert (off.status, off.json["state"]) == (200, "INACTIVE")
    assert put({"state": "ACTIVE", "etag": made.etag}).reason == "conditionNotMet"
    assert put({"state": "DELETED"}).reason == "invalid"
    assert put({"etag": off.json["etag"]}).reason == "required"


def test_a_reply_is_as_large_as_fields_asks(module_storage, owner):
    made, _ = owner.create_hmac_key(ROBOT)
    path = f"/storage/v1{made.path}?fields=state,etag"
    assert module_storage.request("GET", path).json == {"state": "ACTIVE", "etag": made.etag}
    keys = "/storage/v1/projects/p/hmacKeys"
    made = module_storage.request("POST", f"{keys}?serviceAccountEmail={ROBOT}&fields=secret")
    assert list(made.json) == ["secret"]
    assert module_storage.request("POST", keys).reason == "required"


def test_cloud_storage_has_an_account_in_every_project(owner):
    email = owner.get_service_account_email("local-project")
    assert email == "service-424242424242@gs-project-accounts.iam.gserviceaccount.com"
    assert owner.get_service_account_email("p") == owner.get_service_account_email("p") != email
    assert owner.get_service_account_email("77").startswith("service-77@")


@pytest.mark.parametrize("method", ["storage.hmacKey.get", "storage.projects.hmacKeys.get"])
def test_a_key_fails_as_a_retry_test_asks(module_storage, owner, method):
    made, _ = owner.create_hmac_key(ROBOT)
    body = json.dumps({"instructions": {method: ["return-503"]}}).encode()
    test_id = module_storage.request("POST", "/retry_test", body).json["id"]
    path, header = f"/storage/v1{made.path}", {"x_retry_test_id": test_id}
    assert [module_storage.request("GET", path, **header).status for _ in range(2)] == [503, 200]
    assert module_storage.request("GET", f"/retry_test/{test_id}").json["completed"]
