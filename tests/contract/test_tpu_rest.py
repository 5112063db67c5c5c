"""The REST view: the same methods, in JSON."""

import pytest
from tpu_service import ZONE

pytest_plugins = ("tpu_fixtures",)

NODE = {"acceleratorType": "v5litepod-16", "runtimeVersion": "v2-alpha-tpuv5-lite"}


def create(service, node_id="a", node=NODE):
    status, operation = service.send("POST", f"/v2/{ZONE}/nodes?nodeId={node_id}", node)
    assert status == 200
    service.advance(2)
    return service.send("GET", f"/v2/{operation['name']}")[1]


def test_a_node_is_created_read_listed_changed_and_deleted(service):
    operation = create(service, node={**NODE, "metadata": {"a_b": "1"}, "labels": {"l": "x"}})
    node = operation["response"]
    assert operation["done"] is True
    assert operation["metadata"]["@type"].endswith("/google.cloud.tpu.v2.OperationMetadata")
    assert node.pop("@type").endswith("/google.cloud.tpu.v2.Node")
    assert (node["state"], node["health"], node["apiVersion"]) == ("READY", "HEALTHY", "V2")
    assert node["acceleratorConfig"] == {"type": "V5LITE_POD", "topology": "4x4"}
    assert node["metadata"] == {"a_b": "1"}
    assert node["createTime"] == "2027-01-15T08:00:00Z"
    assert node["networkEndpoints"][3] == {"ipAddress": "10.128.0.5", "port": 8470}
    assert isinstance(node["id"], str)
    assert service.send("GET", f"/v2/{ZONE}/nodes/a") == (200, node)
    assert service.send("GET", f"/v2/{ZONE}/nodes") == (200, {"nodes": [node]})
    status, _ = service.send(
        "PATCH", f"/v2/{ZONE}/nodes/a?updateMask=metadata,description", {"metadata": {"k": "v"}}
    )
    assert status == 200
    assert service.send("GET", f"/v2/{ZONE}/nodes/a")[1]["metadata"] == {"k": "v"}
    assert service.send("DELETE", f"/v2/{ZONE}/nodes/a")[0] == 200
    service.advance(1)
    assert service.send("GET", f"/v2/{ZONE}/nodes") == (200, {})


def test_verbs_behind_a_colon(service):
    create(service, node={**NODE, "acceleratorType": "v5litepod-4"})
    _, found = service.send("POST", f"/v2/{ZONE}/nodes/a:getGuestAttributes", {"workerIds": [""]})
    (worker,) = found["guestAttributes"]
    assert worker["queryValue"]["items"][1] == {
        "namespace": "hostkeys",
        "key": "ssh-ed25519",
        "value": "KEY0",
    }
    assert service.send("POST", f"/v2/{ZONE}/nodes/a:stop", {})[0] == 200
    assert service.send("GET", f"/v2/{ZONE}/nodes/a")[1]["state"] == "STOPPED"


def test_pages(service):
    for node_id in ("a", "b", "c"):
        create(service, node_id)
    _, first = service.send("GET", f"/v2/{ZONE}/nodes?pageSize=2&alt=json&$.xgafv=1")
    assert len(first["nodes"]) == 2
    token = first["nextPageToken"]
    _, rest = service.send("GET", f"/v2/{ZONE}/nodes?pageSize=2&pageToken={token}")
    assert [node["name"][-1] for node in rest["nodes"]] == ["c"]


def test_a_queued_resource(service):
    body = {"tpu": {"nodeSpec": [{"parent": ZONE, "nodeId": "a", "node": NODE}]}, "spot": {}}
    path = f"/v2/{ZONE}/queuedResources"
    assert service.send("POST", f"{path}?queuedResourceId=q", body)[0] == 200
    service.advance(2)
    _, found = service.send("GET", f"{path}/q")
    assert found["state"] == {"state": "ACTIVE", "activeData": {}, "stateInitiator": "SERVICE"}
    assert service.send("DELETE", f"{path}/q")[1]["error"]["status"] == "FAILED_PRECONDITION"
    assert service.send("DELETE", f"{path}/q?force=true")[0] == 200


def test_locations_and_offers(service):
    _, found = service.send("GET", "/v2/projects/demo/locations")
    assert {"name": ZONE, "locationId": "us-west4-a"} in found["locations"]
    _, found = service.send("GET", f"/v2/{ZONE}/acceleratorTypes/v5litepod-16")
    assert found["acceleratorConfigs"] == [{"type": "V5LITE_POD", "topology": "4x4"}]


@pytest.mark.parametrize(
    ("verb", "path", "body", "code", "status", "cause"),
    [
        ("GET", f"/v2/{ZONE}/nodes/nope", None, 404, "NOT_FOUND", "nodes/nope"),
        ("GET", "/v2/projects/demo/locations/mars/nodes", None, 400, "INVALID_ARGUMENT", "mars"),
        (
            "POST",
            f"/v2/{ZONE}/nodes?nodeId=a",
            {"acceleratorType": "x"},
            400,
            "INVALID_ARGUMENT",
            "x",
        ),
        (
            "POST",
            f"/v2/{ZONE}/nodes?nodeId=a",
            {"colour": "red"},
            400,
            "INVALID_ARGUMENT",
            "colour",
        ),
        ("POST", f"/v2/{ZONE}/nodes?nodeId=a", [1], 400, "INVALID_ARGUMENT", "payload"),
        ("POST", f"/v2/{ZONE}/nodes?nodeId=a&x.y=1", NODE, 400, "INVALID_ARGUMENT", "x.y"),
        ("GET", f"/v2/{ZONE}/nodes?pageSize=many", None, 400, "INVALID_ARGUMENT", "payload"),
        ("POST", f"/v2/{ZONE}/queuedResources/q:reset", {}, 501, "UNIMPLEMENTED", "Reset"),
        ("GET", "/v2/nothing", None, 404, "NOT_FOUND", "/v2/nothing"),
        ("GET", "/", None, 404, "NOT_FOUND", "GET /"),
    ],
)
def test_errors_have_googles_shape(service, verb, path, body, code, status, cause):
    found_code, found = service.send(verb, path, body)
    error = found["error"]
    assert (found_code, error["code"], error["status"]) == (code, code, status)
    assert cause in error["message"]
