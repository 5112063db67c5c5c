"""The APIs by which a project is set up: what a scenario breaks, gcloud mends."""

import json
import shlex

import grpc
import pytest
import requests
from clouds import MATRIX
from system.clients.gcloud_cli import GCLOUD, gcloud_program

from tpuctl.operations.local import local_cloud

PROJECT = "local-project"
WORKER = "424242424242-compute@developer.gserviceaccount.com"
COMPUTE = f"/compute/v1/projects/{PROJECT}"
ACCOUNTS = f"/v1/projects/{PROJECT}/serviceAccounts"

needs_gcloud = pytest.mark.skipif(GCLOUD is None, reason="gcloud is not installed")


@pytest.fixture
def send(cloud):
    """`send(verb, path, body) -> (status, document)`."""

    def send(verb, path, body=None):
        with requests.Session() as session:
            session.trust_env = False
            url = cloud.line["compute"] + path
            reply = session.request(verb, url, json=body, timeout=10)
            return reply.status_code, reply.json()

    return send


@pytest.fixture
def change(cloud):
    """`change(key=value)` changes the scenario."""

    def change(**settings):
        cloud.control._send("PATCH", "/scenario", json.dumps(settings).encode())

    return change


@pytest.fixture(scope="module")
def gcloud(manual_cloud, tmp_path_factory):
    """`gcloud("services list")`, pointed at the simulator as `tpuctl local env` does."""
    exports = local_cloud.client_environment(manual_cloud.line)
    with gcloud_program(tmp_path_factory.mktemp("gcloud-home"), **exports) as program:
        yield lambda words: program(*shlex.split(words)).ok()


def permissions(send, path, *wanted):
    body = {"permissions": list(wanted)}
    return send("POST", f"{path}:testIamPermissions", body)[1].get("permissions", [])


# Service Usage


def test_an_api_that_is_not_enabled_is_refused_and_named(send, change):
    change(disabled_apis=["compute.googleapis.com"])
    status, document = send("GET", COMPUTE)
    assert status == 403
    message = document["error"]["message"]
    assert message.startswith("Compute Engine API has not been used in project")
    assert document["error"]["details"][0]["reason"] == "SERVICE_DISABLED"
    service = f"/v1/projects/{PROJECT}/services/compute.googleapis.com"
    assert send("GET", service)[1]["state"] == "DISABLED"
    assert send("POST", f"{service}:enable", {})[0] == 200
    assert (send("GET", COMPUTE)[0], send("GET", service)[1]["state"]) == (200, "ENABLED")


def test_an_api_that_is_not_enabled_is_refused_over_grpc_too(cloud, change):
    change(disabled_apis=["logging.googleapis.com"])
    path = "/google.logging.v2.LoggingServiceV2/ListLogEntries"
    with (
        grpc.insecure_channel(cloud.line["tpu_grpc"]) as channel,
        pytest.raises(grpc.RpcError) as refused,
    ):
        channel.unary_unary(path)(b"")
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert refused.value.details().startswith("Cloud Logging API has not been used in project")


@MATRIX
@needs_gcloud
def test_gcloud_enables_several_apis_at_once(send, change, gcloud):
    change(tpu_api="disabled", disabled_apis=["compute.googleapis.com", "iam.googleapis.com"])
    gcloud("services enable tpu.googleapis.com compute.googleapis.com iam.googleapis.com")
    _, found = send("GET", f"/v1/projects/{PROJECT}/services?filter=state:DISABLED")
    assert found == {"services": []}


# Cloud Billing


def test_a_project_without_billing_says_so(send, change):
    path = f"/v1/projects/{PROJECT}/billingInfo"
    assert send("GET", path)[1]["billingEnabled"] is True
    change(billing="disabled")
    assert send("GET", path)[1] == {"name": f"projects/{PROJECT}/billingInfo", "projectId": PROJECT}
    assert send("PUT", path, {"billingAccountName": "billingAccounts/mine"})[0] == 403


@MATRIX
@needs_gcloud
def test_gcloud_links_the_billing_account(send, change, gcloud, tpuctl):
    change(billing="disabled")
    assert tpuctl("node", "list").code == 21
    (account,) = send("GET", "/v1/billingAccounts")[1]["billingAccounts"]
    number = account["name"].partition("/")[2]
    gcloud(f"billing projects link {PROJECT} --billing-account={number}")
    assert tpuctl("node", "list").code == 0


# IAM


def test_the_policy_shows_the_roles_of_everybody_and_of_workers(send):
    _, policy = send("POST", f"/v1/projects/{PROJECT}:getIamPolicy", {})
    roles = {binding["role"]: binding["members"] for binding in policy["bindings"]}
    assert roles["roles/owner"] == ["allUsers"]
    assert f"serviceAccount:{WORKER}" in roles["roles/editor"]


def test_a_policy_that_somebody_else_changed_is_not_overwritten(send):
    _, policy = send("POST", f"/v1/projects/{PROJECT}:getIamPolicy", {})
    stale = {"policy": {**policy, "etag": "AAAA"}}
    status, document = send("POST", f"/v1/projects/{PROJECT}:setIamPolicy", stale)
    assert (status, document["error"]["status"]) == (409, "ABORTED")


@pytest.mark.parametrize(
    "policy",
    [
        None,
        {"bindings": "all"},
        {"bindings": [{"role": "roles/king", "members": ["allUsers"]}]},
        {"bindings": [{"role": "roles/viewer", "members": "allUsers"}]},
    ],
    ids=str,
)
def test_a_policy_that_is_none_is_invalid(send, policy):
    path = f"/v1/projects/{PROJECT}:setIamPolicy"
    assert send("POST", path, {"policy": policy})[1]["error"]["status"] == "INVALID_ARGUMENT"


def test_who_lacks_a_role_is_refused_on_every_wire(send, change, tpuctl):
    change(member_roles={"allUsers": ["roles/tpu.viewer"]})
    assert tpuctl("node", "list").code == 0
    refused = tpuctl("node", "create", "n1", "-t", "v5litepod-4")
    assert refused.code == 21
    assert "tpu.nodes.create" in refused.err
    assert tpuctl("data", "list", "gs://local-bucket").code == 21
    assert send("GET", COMPUTE)[0] == 403
    project = f"/v1/projects/{PROJECT}"
    assert permissions(send, project, "tpu.nodes.get", "tpu.nodes.create") == ["tpu.nodes.get"]


@MATRIX
@needs_gcloud
def test_gcloud_grants_a_role(change, gcloud, tpuctl):
    change(member_roles={"allUsers": ["roles/tpu.viewer", "roles/storage.admin"]})
    gcloud(f"projects add-iam-policy-binding {PROJECT} --member=allUsers --role=roles/tpu.admin")
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-4").code == 0


def test_a_service_account_is_there_disabled_or_absent(send, change):
    assert send("GET", f"{ACCOUNTS}/{WORKER}")[1]["email"] == WORKER
    change(service_accounts={"default": "disabled"})
    assert send("GET", f"{ACCOUNTS}/{WORKER}")[1]["disabled"] is True
    change(service_accounts={"default": "absent"})
    status, document = send("GET", f"{ACCOUNTS}/{WORKER}")
    assert (status, document["error"]["status"]) == (404, "NOT_FOUND")


@MATRIX
@needs_gcloud
def test_gcloud_makes_enables_and_shares_a_service_account(send, change, gcloud):
    change(service_accounts={"default": "disabled"}, member_roles={"allUsers": ["roles/editor"]})
    gcloud(f"iam service-accounts enable {WORKER}")
    assert "disabled" not in send("GET", f"{ACCOUNTS}/{WORKER}")[1]
    gcloud("iam service-accounts create training")
    email = f"training@{PROJECT}.iam.gserviceaccount.com"
    roles = ["roles/iam.serviceAccountAdmin"]
    change(member_roles={"allUsers": roles})
    assert permissions(send, f"{ACCOUNTS}/{email}", "iam.serviceAccounts.actAs") == []
    gcloud(
        f"iam service-accounts add-iam-policy-binding {email} --member=allUsers"
        " --role=roles/iam.serviceAccountUser"
    )
    held = permissions(send, f"{ACCOUNTS}/{email}", "iam.serviceAccounts.actAs")
    assert held == ["iam.serviceAccounts.actAs"]


def test_service_accounts_are_listed(send):
    assert send("POST", f"{ACCOUNTS}/{WORKER}:disable", {}) == (200, {})
    listed = send("GET", ACCOUNTS)[1]["accounts"]
    assert [one["email"] for one in listed if one.get("disabled")] == [WORKER]
    assert send("POST", f"{ACCOUNTS}/{WORKER}:enable", {}) == (200, {})
    assert send("POST", ACCOUNTS, {"accountId": "admin"})[0] == 400
    assert send("POST", ACCOUNTS, {"accountId": "training"})[0] == 200
    assert send("POST", ACCOUNTS, {"accountId": "training"})[0] == 409


# Networks


def test_a_closed_firewall_keeps_everybody_out_of_the_workers(send, change, tpuctl):
    tpuctl("node", "create", "n1", "-t", "v5litepod-4")
    change(firewalls=[])
    assert send("GET", f"{COMPUTE}/global/firewalls")[1]["items"] == []
    assert tpuctl("node", "exec", "n1", "--", "true").code != 0
    rule = {"name": "in", "allowed": [{"IPProtocol": "tcp", "ports": ["20-30"]}]}
    assert send("POST", f"{COMPUTE}/global/firewalls", rule)[1]["status"] == "DONE"
    assert send("POST", f"{COMPUTE}/global/firewalls", rule)[0] == 409
    assert tpuctl("node", "exec", "n1", "--", "true").code == 0
    assert send("DELETE", f"{COMPUTE}/global/firewalls/in")[0] == 200
    assert send("GET", f"{COMPUTE}/global/firewalls/in")[0] == 404


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        ({}, 400),
        ({"name": "in"}, 400),
        ({"name": "in", "allowed": [{"IPProtocol": "tcp", "ports": ["ssh"]}]}, 400),
        ({"name": "in", "allowed": [{"IPProtocol": "tcp:22", "ports": ["1"]}]}, 400),
        ({"name": "in", "allowed": ["tcp"]}, 400),
        ({"name": "in", "allowed": [{"IPProtocol": "tcp"}], "sourceRanges": "all"}, 400),
        ({"name": "in", "denied": [{"IPProtocol": "tcp"}]}, 501),
        ({"name": "in", "allowed": [{"IPProtocol": "tcp"}], "direction": "EGRESS"}, 501),
    ],
    ids=str,
)
def test_a_rule_that_is_none_is_refused(send, rule, status):
    assert send("POST", f"{COMPUTE}/global/firewalls", rule)[0] == status


@MATRIX
@needs_gcloud
def test_gcloud_opens_the_firewall(send, change, gcloud):
    change(firewalls=[])
    gcloud(
        "compute firewall-rules create allow-ssh --network=default --allow=tcp:22"
        " --source-ranges=35.235.240.0/20"
    )
    (rule,) = send("GET", f"{COMPUTE}/global/firewalls")[1]["items"]
    assert rule["allowed"] == [{"IPProtocol": "tcp", "ports": ["22"]}]
    assert rule["sourceRanges"] == ["35.235.240.0/20"]


def test_a_network_that_is_not_there_is_not_found(send, change):
    change(networks=["train"])
    assert send("GET", f"{COMPUTE}/global/networks/train")[0] == 200
    assert send("GET", f"{COMPUTE}/global/networks/default")[0] == 404
    names = [one["name"] for one in send("GET", f"{COMPUTE}/global/networks")[1]["items"]]
    assert names == ["train"]
    assert send("GET", f"{COMPUTE}/regions/mars/routers")[0] == 404


@MATRIX
@needs_gcloud
def test_gcloud_gives_workers_without_external_addresses_a_way_out(send, change, gcloud):
    change(subnets_without_google_access=["us-west4"])
    subnet = f"{COMPUTE}/regions/us-west4/subnetworks/default"
    assert send("GET", subnet)[1]["privateIpGoogleAccess"] is False
    gcloud(
        "compute networks subnets update default --region=us-west4"
        " --enable-private-ip-google-access"
    )
    assert send("GET", subnet)[1]["privateIpGoogleAccess"] is True
    assert send("GET", f"{COMPUTE}/regions/us-west4/routers")[1]["items"] == []
    gcloud("compute routers create tpuctl --network=default --region=us-west4")
    gcloud(
        "compute routers nats create tpuctl --router=tpuctl --region=us-west4"
        " --auto-allocate-nat-external-ips --nat-all-subnet-ip-ranges"
    )
    (router,) = send("GET", f"{COMPUTE}/regions/us-west4/routers")[1]["items"]
    assert [nat["name"] for nat in router["nats"]] == ["tpuctl"]


def test_an_operation_of_a_region_can_be_waited_for(send):
    subnet = f"{COMPUTE}/regions/us-west4/subnetworks/default"
    body = {"privateIpGoogleAccess": True}
    _, made = send("POST", f"{subnet}/setPrivateIpGoogleAccess", body)
    path = f"{COMPUTE}/regions/us-west4/operations/{made['name']}"
    assert send("GET", path) == send("POST", f"{path}/wait") == (200, made)
    assert send("GET", f"{COMPUTE}/regions/us-west4/operations/operation-1")[0] == 404


# Cloud Quotas


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"quotaId": "TPUV0"}, "NOT_FOUND"),
        ({"dimensions": {"zone": "mars-a"}}, "INVALID_ARGUMENT"),
        ({"dimensions": {}}, "INVALID_ARGUMENT"),
        ({"dimensions": 7}, "INVALID_ARGUMENT"),
        ({"quotaConfig": {"preferredValue": "-1"}}, "INVALID_ARGUMENT"),
        ({"quotaConfig": {"preferredValue": "many"}}, "INVALID_ARGUMENT"),
        ({"quotaConfig": 7}, "INVALID_ARGUMENT"),
    ],
    ids=str,
)
def test_a_request_for_quota_that_is_none_is_refused(send, change, status):
    path = f"/v1/projects/{PROJECT}/locations/global/quotaPreferences"
    wanted = {
        "service": "tpu.googleapis.com",
        "quotaId": "TPUV5sLitepodPerProjectPerZoneForTPUAPI",
        "dimensions": {"zone": "us-west4-a"},
        "quotaConfig": {"preferredValue": "16"},
    }
    assert send("POST", path, {**wanted, **change})[1]["error"]["status"] == status


def test_one_limit_for_all_zones_holds_on_in_the_others(send, change):
    quota = "TPUV5sLitepodPerProjectPerZoneForTPUAPI"
    change(quota={quota: 4})
    wanted = {
        "service": "tpu.googleapis.com",
        "quotaId": quota,
        "dimensions": {"zone": "us-west4-a"},
        "quotaConfig": {"preferredValue": "16"},
    }
    path = f"/v1/projects/{PROJECT}/locations/global/quotaPreferences"
    assert send("POST", path, wanted)[1]["quotaConfig"]["grantedValue"] == "16"
    service = f"/v1beta1/projects/{PROJECT}/services/tpu.googleapis.com"
    metrics = send("GET", f"{service}/consumerQuotaMetrics")[1]["metrics"]
    (found,) = [each for each in metrics if each["displayName"] == quota]
    limits = {
        bucket["dimensions"]["zone"]: bucket["effectiveLimit"]
        for bucket in found["consumerQuotaLimits"][0]["quotaBuckets"]
    }
    assert (limits["us-west4-a"], limits["europe-west4-b"]) == ("16", "4")


@MATRIX
@needs_gcloud
def test_gcloud_asks_for_more_quota_and_gets_it(change, gcloud, tpuctl):
    quota = "TPUV5sLitepodPerProjectPerZoneForTPUAPI"
    change(quota={quota: 0})
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-16").code == 30
    gcloud(
        f"beta quotas preferences create --service=tpu.googleapis.com --project={PROJECT}"
        f" --quota-id={quota} --preferred-value=16 --dimensions=zone=us-west4-a"
    )
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-16").code == 0
