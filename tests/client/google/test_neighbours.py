"""The neighbours of Cloud TPU: as much of other APIs as the clients of this one ask for."""

import json
from urllib.parse import urlsplit

import pytest
import requests
from system.clients.gcloud_cli import GCLOUD, gcloud_program

from tpuctl.operations.local import local_cloud

PROJECT = "local-project"
METADATA = f"/compute/v1/projects/{PROJECT}"
TPU = f"/v1/projects/{PROJECT}/services/tpu.googleapis.com"


@pytest.fixture
def send(cloud):
    """`send(verb, path, body) -> (status, document)`."""

    def send(verb, path, body=None, **options):
        with requests.Session() as session:
            session.trust_env = False
            url = cloud.line["compute"] + path
            reply = session.request(verb, url, json=body, timeout=10, **options)
            return reply.status_code, reply.json()

    return send


def metadata(send):
    _, project = send("GET", METADATA)
    return project["commonInstanceMetadata"]


def set_metadata(send, items, fingerprint=""):
    body = {"items": [{"key": key, "value": value} for key, value in items.items()]}
    return send(
        "POST", f"{METADATA}/setCommonInstanceMetadata", {**body, "fingerprint": fingerprint}
    )


# Compute Engine


def test_a_project_is_there_by_its_id_and_by_its_number(send):
    for name in (PROJECT, "424242424242"):
        status, project = send("GET", f"/compute/v1/projects/{name}")
        assert (status, project["name"], project["id"]) == (200, PROJECT, "424242424242")
        assert project["commonInstanceMetadata"]["kind"] == "compute#metadata"


def test_metadata_of_the_project_is_replaced_as_a_whole(send):
    assert set_metadata(send, {"a": "1"})[1]["status"] == "DONE"
    assert set_metadata(send, {"ssh-keys": "me:ssh-rsa AAAA"})[0] == 200
    assert metadata(send)["items"] == [{"key": "ssh-keys", "value": "me:ssh-rsa AAAA"}]


def test_metadata_that_somebody_else_changed_is_not_overwritten(send):
    seen = metadata(send)["fingerprint"]
    assert set_metadata(send, {"a": "1"}, seen)[0] == 200
    status, document = set_metadata(send, {"b": "2"}, seen)
    assert (status, document["error"]["errors"][0]["reason"]) == (412, "conditionNotMet")
    assert metadata(send)["items"] == [{"key": "a", "value": "1"}]


def test_a_region_tells_how_many_external_addresses_are_left(send, tpuctl):
    tpuctl("local", "fault", "quota IN_USE_ADDRESSES: 8")
    tpuctl("node", "create", "n1", "-t", "v5litepod-4")
    status, region = send("GET", f"{METADATA}/regions/us-west4")
    quota = {"metric": "IN_USE_ADDRESSES", "limit": 8.0, "usage": 1.0}
    assert (status, region["name"], region["quotas"]) == (200, "us-west4", [quota])
    status, document = send("GET", f"{METADATA}/regions/mars")
    assert status == 404
    assert document["error"]["message"].endswith("regions/mars' was not found")


def test_an_operation_can_be_got_and_waited_for(send):
    _, made = set_metadata(send, {})
    path = f"{METADATA}/global/operations/{made['name']}"
    assert send("GET", path) == send("POST", f"{path}/wait") == (200, made)
    status, document = send("GET", f"{METADATA}/global/operations/operation-1")
    assert (status, document["error"]["errors"][0]["reason"]) == (404, "notFound")


@pytest.mark.parametrize(
    "items",
    [
        {},
        "text",
        [7],
        [{"key": "a"}],
        [{"key": "", "value": ""}],
        [{"key": "a b", "value": ""}],
        [{"key": "a", "value": 7}],
        [{"key": "a", "value": "x" * 300_000}],
        [{"key": "a", "value": ""}, {"key": "a", "value": ""}],
    ],
    ids=lambda items: str(items)[:30],
)
def test_metadata_that_is_none_is_invalid(send, items):
    status, document = send("POST", f"{METADATA}/setCommonInstanceMetadata", {"items": items})
    assert (status, document["error"]["errors"][0]["reason"]) == (400, "invalid")
    assert "items" not in metadata(send)


def test_a_project_that_is_not_ours_is_not_found_or_denied(send):
    assert send("GET", "/compute/v1/projects/other")[0] == 404
    assert send("GET", "/v1/projects/other")[1]["error"]["status"] == "PERMISSION_DENIED"
    assert send("GET", "/v1/projects/other/services/tpu.googleapis.com")[0] == 403


# Service Usage


def test_the_service_is_enabled_and_enabling_it_again_changes_nothing(send):
    _, service = send("GET", TPU)
    assert (service["state"], service["config"]["name"]) == ("ENABLED", "tpu.googleapis.com")
    _, operation = send("POST", f"{TPU}:enable", {})
    assert (operation["done"], operation["response"]["service"]) == (True, service)
    assert send("GET", f"/v1/{operation['name']}")[1]["done"]


def test_what_is_not_enabled_is_refused_until_it_is(send, tpuctl, cloud):
    cloud.control._send("PATCH", "/scenario", json.dumps({"tpu_api": "disabled"}).encode())
    refused = tpuctl("node", "list")
    assert refused.code == 21
    assert "the Cloud TPU API is not enabled" in refused.err
    assert "hint: run: gcloud services enable tpu.googleapis.com" in refused.err
    assert send("GET", TPU)[1]["state"] == "DISABLED"
    assert send("POST", f"{TPU}:enable", {})[1]["response"]["service"]["state"] == "ENABLED"
    assert tpuctl("node", "list").code == 0


def test_a_service_that_nobody_knows_is_denied(send):
    status, document = send("GET", f"/v1/projects/{PROJECT}/services/x.googleapis.com")
    assert (status, document["error"]["status"]) == (403, "PERMISSION_DENIED")


def test_quota_is_shown_with_what_is_used_of_it(send, tpuctl):
    tpuctl("node", "create", "n1", "-t", "v5litepod-16")
    path = TPU.replace("/v1/", "/v1beta1/") + "/consumerQuotaMetrics"
    _, document = send("GET", path)
    used = {
        (metric["displayName"], bucket["dimensions"]["zone"]): bucket["usage"]
        for metric in document["metrics"]
        for limit in metric["consumerQuotaLimits"]
        for bucket in limit["quotaBuckets"]
        if bucket["usage"] != "0"
    }
    assert used == {("TPUV5sLitepodPerProjectPerZoneForTPUAPI", "us-west4-a"): "16"}


# Cloud Resource Manager


def test_both_versions_know_the_projects_number(send):
    _, old = send("GET", f"/v1/projects/{PROJECT}")
    assert (old["projectNumber"], old["lifecycleState"]) == ("424242424242", "ACTIVE")
    _, new = send("GET", f"/v3/projects/{PROJECT}")
    assert (new["name"], new["state"]) == ("projects/424242424242", "ACTIVE")


@pytest.mark.parametrize("version", ["v1", "v3"])
def test_without_accounts_everybody_may_everything(send, version):
    path = f"/{version}/projects/{PROJECT}:testIamPermissions"
    wanted = {"permissions": ["tpu.nodes.create", "tpu.nodes.delete"]}
    assert send("POST", path, wanted) == (200, wanted)
    assert send("POST", path, {"permissions": "all"})[1]["error"]["status"] == "INVALID_ARGUMENT"


# OAuth 2


def test_without_accounts_there_are_no_tokens(cloud):
    grant = {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": "e30.e30.e30",
    }
    with requests.Session() as session:
        session.trust_env = False
        reply = session.post(f"{cloud.line['oauth2']}/token", data=grant, timeout=10)
        assert (reply.status_code, reply.json()["error"]) == (400, "invalid_grant")
        assert reply.headers["Cache-Control"] == "no-store"
        reply = session.post(f"{cloud.line['oauth2']}/token", data={"grant_type": "x"}, timeout=10)
        assert reply.json()["error"] == "unsupported_grant_type"


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Encoding": "gzip"},
        {"Content-Type": "application/x-www-form-urlencoded; charset=nonsense"},
    ],
)
def test_a_form_that_cannot_be_read_is_the_clients_fault(cloud, headers):
    with requests.Session() as session:
        session.trust_env = False
        url = f"{cloud.line['oauth2']}/token"
        reply = session.post(url, data=b"\xff=", headers=headers, timeout=10)
    assert (reply.status_code, reply.json()["error"]) == (400, "invalid_request")


# The port


@pytest.mark.parametrize(
    "path",
    [
        f"/compute/v1/projects/{PROJECT}/zones/us-west4-a/instances",
        f"/v1/projects/{PROJECT}/locations/us/keyRings/r/cryptoKeys/k",
    ],
)
def test_what_is_absent_names_itself(send, path):
    status, document = send("GET", path)
    assert status == 501
    assert document["error"]["message"] == f"GET {path} is not emulated by localsim"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_pages_of_the_web_are_refused(cloud, headers, status):
    url = f"{cloud.line['compute']}{METADATA}/setCommonInstanceMetadata"
    with requests.Session() as session:
        session.trust_env = False
        reply = session.post(url, data='{"items": []}', headers=headers, timeout=10)
    assert reply.status_code == status


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"\xff", b"[" * 100_000, b"{}" * 1_000_000])
def test_a_malformed_or_oversize_body_is_the_clients_fault(cloud, body):
    url = f"{cloud.line['compute']}/v1/projects/{PROJECT}:testIamPermissions"
    with requests.Session() as session:
        session.trust_env = False
        headers = {"Content-Type": "application/json"}
        reply = session.post(url, data=body, headers=headers, timeout=10)
    assert (reply.status_code, reply.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")


@pytest.fixture(scope="module")
def gcloud(manual_cloud, tmp_path_factory):
    """gcloud with a home of its own, as `tpuctl local env` would point it."""
    exports = local_cloud.client_environment(manual_cloud.line)
    with gcloud_program(tmp_path_factory.mktemp("gcloud-home"), **exports) as program:
        yield program


@pytest.mark.skipif(GCLOUD is None, reason="gcloud is not installed")
def test_gcloud_finds_what_it_asks_for(gcloud, cloud):
    gcloud("compute", "project-info", "add-metadata", "--metadata=a=1").ok()
    project = gcloud("compute", "project-info", "describe", "--format=json").json
    assert project["commonInstanceMetadata"]["items"] == [{"key": "a", "value": "1"}]
    number = gcloud("projects", "describe", PROJECT, "--format=value(projectNumber)").ok()
    assert number.strip() == "424242424242"
    services = gcloud("services", "list", "--format=value(config.name)").ok()
    assert "tpu.googleapis.com" in services


@pytest.mark.skipif(GCLOUD is None, reason="gcloud is not installed")
def test_gcloud_prepares_a_connection_to_a_worker(gcloud, tpuctl):
    tpuctl("node", "create", "n1", "-t", "v5litepod-4")
    ssh = ("compute", "tpus", "tpu-vm", "ssh", "n1", "--internal-ip", "--dry-run")
    address = tpuctl("node", "describe", "n1", "-o", "json").json["addresses"][0]
    assert gcloud(*ssh).ok().rstrip().endswith(f"@{address}")


def test_all_of_them_share_a_port(cloud):
    keys = ("compute", "serviceusage", "cloudresourcemanager", "secretmanager", "oauth2")
    assert len({urlsplit(cloud.line[key]).port for key in keys}) == 1


# Cloud Billing


def test_prices_are_listed_page_by_page(send):
    _, listed = send("GET", "/v1/services")
    assert [each["displayName"] for each in listed["services"]] == ["Cloud TPU", "Compute Engine"]
    path = f"/v1/{listed['services'][1]['name']}/skus"
    _, whole = send("GET", path)
    found, token = [], ""
    while not found or token:
        _, page = send("GET", f"{path}?pageSize=20&pageToken={token}")
        found, token = [*found, *page["skus"]], page["nextPageToken"]
    assert (found, whole["nextPageToken"]) == (whole["skus"], "")
    spot = next(each for each in found if each["description"].startswith("Preemptible TpuV5e"))
    (pricing,) = spot["pricingInfo"]
    assert pricing["pricingExpression"]["tieredRates"][0]["unitPrice"]["currencyCode"] == "USD"
    assert send("GET", "/v1/services/none/skus")[0] == 404
    assert send("GET", f"{path}?pageToken=x")[0] == 400
