"""The REST view: the same methods, in JSON."""

import http.client

import pytest

from client.tpu.tpu_service import ZONE

pytest_plugins = ("client.tpu.tpu_fixtures",)

KEY = "projects/demo/locations/us-west4/keyRings/r/cryptoKeys/k"
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
    assert node.pop("@type").endswith("/google.cloud.tpu.v2.Node")
    assert (node["state"], node["apiVersion"]) == ("READY", "V2")
    assert node["acceleratorConfig"] == {"type": "V5LITE_POD", "topology": "4x4"}
    assert node["metadata"] == {"a_b": "1"}
    assert node["createTime"] == "2027-01-15T08:00:00Z"
    assert node["networkEndpoints"][3] == {"ipAddress": "10.128.0.5", "port": 8470}
    assert isinstance(node["id"], str)
    found = {**node, "health": "HEALTHY"}
    assert service.send("GET", f"/v2/{ZONE}/nodes/a") == (200, found)
    assert service.send("GET", f"/v2/{ZONE}/nodes") == (200, {"nodes": [found]})
    status, _ = service.send(
        "PATCH", f"/v2/{ZONE}/nodes/a?updateMask=metadata,description", {"metadata": {"k": "v"}}
    )
    assert status == 200
    service.advance(5)
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


def test_v1_shows_what_gcloud_still_asks_it(service):
    create(service)
    _, found = service.send("GET", f"/v1/{ZONE}/nodes")
    _, one = service.send("GET", f"/v1/{ZONE}/nodes/a")
    assert found == {"nodes": [one]}
    assert one["network"] == "projects/demo/global/networks/default"
    assert one["serviceAccount"].endswith("-compute@developer.gserviceaccount.com")
    assert one["tensorflowVersion"] == NODE["runtimeVersion"]
    version = f"{ZONE}/tensorflowVersions/{NODE['runtimeVersion']}"
    assert service.send("GET", f"/v1/{version}")[1]["name"] == version


@pytest.mark.parametrize(
    ("verb", "path"),
    [("DELETE", f"/v1/{ZONE}/nodes/a"), ("GET", f"/v2alpha/{ZONE}/nodes")],
)
def test_what_else_an_absent_version_has_is_unimplemented(service, verb, path):
    status, found = service.send(verb, path)
    assert (status, found["error"]["status"]) == (501, "UNIMPLEMENTED")
    assert found["error"]["message"].startswith(f"{verb} {path}")


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


def test_one_object_is_a_list_of_one(service):
    body = {"tpu": {"nodeSpec": {"parent": ZONE, "nodeId": "a", "node": NODE}}}
    path = f"/v2/{ZONE}/queuedResources"
    assert service.send("POST", f"{path}?queuedResourceId=q", body)[0] == 200
    assert len(service.send("GET", f"{path}/q")[1]["tpu"]["nodeSpec"]) == 1


def test_a_described_request_has_its_node_as_on_googles_pages(service):
    wanted = {**NODE, "networkConfig": {"enableExternalIps": True, "network": "default"}}
    body = {"tpu": {"nodeSpec": [{"parent": ZONE, "nodeId": "a", "node": wanted}]}}
    path = f"/v2/{ZONE}/queuedResources"
    service.send("POST", f"{path}?queuedResourceId=q", body)
    (found,) = service.send("GET", f"{path}/q")[1]["tpu"]["nodeSpec"]
    assert (found["parent"], found["nodeId"]) == (ZONE, "a")
    assert found["node"].pop("acceleratorConfig") == {"type": "V5LITE_POD", "topology": "4x4"}
    assert found["node"] == {
        **wanted,
        "queuedResource": f"{ZONE}/queuedResources/q",
        "schedulingConfig": {},
        "serviceAccount": {},
        "shieldedInstanceConfig": {},
    }


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
        ("GET", f"/v2/{ZONE}/nodes?pageSize=many", None, 400, "INVALID_ARGUMENT", "page_size"),
        ("POST", f"/v2/{ZONE}/queuedResources/q:reset", {}, 404, "NOT_FOUND", "queuedResources/q"),
        ("GET", "/v2/nothing", None, 404, "NOT_FOUND", "/v2/nothing"),
        ("GET", "/", None, 404, "NOT_FOUND", "GET /"),
    ],
)
def test_errors_have_googles_shape(service, verb, path, body, code, status, cause):
    found_code, found = service.send(verb, path, body)
    error = found["error"]
    assert (found_code, error["code"], error["status"]) == (code, code, status)
    assert cause in error["message"]


def text_of(service, path):
    """The reply to a GET as it is written."""
    connection = http.client.HTTPConnection("127.0.0.1", service.rest_port, timeout=10)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.headers, reply.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize(
    "query", ["?alt=json", "?prettyPrint=true", "?$.xgafv=2&quotaUser=x&key=y"]
)
def test_a_reply_is_indented_unless_asked_otherwise(service, query):
    create(service)
    headers, text = text_of(service, f"/v2/{ZONE}/nodes/a{query}")
    assert text.startswith('{\n  "name": ')
    assert headers["Content-Type"] == "application/json; charset=UTF-8"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "\n" not in text_of(service, f"/v2/{ZONE}/nodes/a?prettyPrint=false")[1]
    assert text_of(service, f"/v2/{ZONE}/nodes/b?prettyPrint=false")[1].startswith('{"error":{')


def test_enums_are_names_or_as_asked_numbers(service):
    create(service)
    _, named = service.send("GET", f"/v2/{ZONE}/nodes/a?fields=state,acceleratorConfig/type")
    _, numbered = service.send(
        "GET", f"/v2/{ZONE}/nodes/a?$alt=json;enum-encoding=int&fields=state,acceleratorConfig/type"
    )
    assert named == {"state": "READY", "acceleratorConfig": {"type": "V5LITE_POD"}}
    assert numbered == {"state": 2, "acceleratorConfig": {"type": 9}}
    by_number = {"runtimeVersion": "v2-alpha-tpuv5-lite"}
    by_number["acceleratorConfig"] = {"type": 9, "topology": "4x4"}
    assert create(service, "b", by_number)["response"]["acceleratorType"] == "v5litepod-16"


@pytest.mark.parametrize(
    ("query", "code", "cause"),
    [
        ("alt=proto", 501, "alt=proto"),
        ("alt=media", 501, "alt=media"),
        ("alt=xml", 400, "xml"),
        ("fields=colour", 400, "invalid argument"),
        ("fields=state(", 400, "invalid argument"),
        ("fields=state/x", 400, "invalid argument"),
    ],
)
def test_what_a_reply_cannot_be(service, query, code, cause):
    create(service)
    status, found = service.send("GET", f"/v2/{ZONE}/nodes/a?{query}")
    assert (status, found["error"]["code"]) == (code, code)
    assert cause in found["error"]["message"]


def test_nothing_is_done_when_the_reply_cannot_be_made(service):
    path = f"/v2/{ZONE}/nodes"
    for query in ("fields=colour", "alt=proto"):
        assert service.send("POST", f"{path}?nodeId=a&{query}", NODE)[0] in (400, 501)
    assert service.send("GET", path) == (200, {})


def test_every_field_that_does_not_fit_is_named(service):
    node = {"colour": 1, "schedulingConfig": {"x": 2, "spot": "yes"}, "tags": 3}
    _, found = service.send("POST", f"/v2/{ZONE}/nodes?nodeId=a", node)
    (detail,) = found["error"]["details"]
    assert detail["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    unknown = "Invalid JSON payload received. Unknown name"
    assert detail["fieldViolations"] == [
        {"field": "node", "description": f"{unknown} \"colour\" at 'node': Cannot find field."},
        {
            "field": "node.scheduling_config",
            "description": f"{unknown} \"x\" at 'node.scheduling_config': Cannot find field.",
        },
        {
            "field": "node.scheduling_config.spot",
            "description": "Invalid value at 'node.scheduling_config.spot' (TYPE_BOOL), \"yes\"",
        },
        {"field": "node.tags", "description": "Invalid value at 'node.tags' (TYPE_STRING), 3"},
    ]
    assert found["error"]["message"] == "\n".join(
        each["description"] for each in detail["fieldViolations"]
    )


def test_one_tier_only(service):
    body = {"tpu": {"nodeSpec": []}, "spot": {}, "guaranteed": {}}
    path = f"/v2/{ZONE}/queuedResources?queuedResourceId=q"
    _, found = service.send("POST", path, body)
    assert "oneof field 'tier' is already set" in found["error"]["message"]


@pytest.mark.parametrize("version", ["v2", "v2alpha1"])
def test_what_only_rest_has_is_kept_and_shown(service, version):
    more = {
        "schedulingConfig": {"provisioningModel": "STANDARD"},
        "bootDiskConfig": {
            "customerEncryptionKey": {"kmsKeyName": KEY},
            "diskSizeGb": "200",
            "sourceImage": "i",
            "provisionedIops": "3000",
        },
        "confidentialInstanceConfig": {"enableConfidentialCompute": True},
    }
    path = f"/{version}/{ZONE}/nodes"
    status, operation = service.send("POST", f"{path}?nodeId=a", {**NODE, **more})
    assert status == 200, operation
    service.advance(2)
    _, found = service.send("GET", f"{path}/a")
    assert {key: found[key] for key in more} == more
    assert service.client().get_node(name=f"{ZONE}/nodes/a").state.name == "READY"


def test_a_type_that_no_zone_has_is_refused_as_any_other(service):
    config = {"type": "TPU7X", "topology": "2x2x1"}
    node = {"runtimeVersion": "v2-alpha-tpuv5-lite", "acceleratorConfig": config}
    status, found = service.send("POST", f"/v2alpha1/{ZONE}/nodes?nodeId=a", node)
    assert (status, found["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert "TPU7X" in found["error"]["message"]


def test_what_only_v2alpha1_has_is_unknown_to_v2(service):
    assert service.send("GET", f"/v2/{ZONE}/reservations")[0] == 404
    status, found = service.send("POST", f"/v2/{ZONE}/queuedResources", {"bestEffort": {}})
    assert (status, "bestEffort" in found["error"]["message"]) == (400, True)
    assert service.send("GET", f"/v2alpha1/{ZONE}/reservations")[0] == 200


@pytest.mark.parametrize("version", ["v2", "v2alpha1"])
def test_the_api_describes_itself(service, version):
    _, document = service.send("GET", f"/$discovery/rest?version={version}")
    assert document["id"] == f"tpu:{version}"
    assert document["rootUrl"] == f"http://127.0.0.1:{service.rest_port}/"
    methods = dict(methods_in(document["resources"]))
    nodes = methods["tpu.projects.locations.nodes.list"]
    assert (nodes["httpMethod"], nodes["path"]) == ("GET", f"{version}/{{+parent}}/nodes")
    assert nodes["flatPath"] == f"{version}/projects/{{projectsId}}/locations/{{locationsId}}/nodes"
    assert nodes["parameters"]["parent"]["pattern"] == "^projects/[^/]+/locations/[^/]+$"
    assert nodes["response"] == {"$ref": "ListNodesResponse"}
    assert ("tpu.projects.locations.reservations.list" in methods) == (version == "v2alpha1")
    node = document["schemas"]["Node"]["properties"]
    assert node["acceleratorConfig"] == {"$ref": "AcceleratorConfig"}
    assert node["labels"] == {"type": "object", "additionalProperties": {"type": "string"}}
    assert ("autocheckpointEnabled" in node) == (version == "v2alpha1")
    assert document["schemas"]["StopNodeRequest"]["properties"] == {}
    assert set(references(document)) <= set(document["schemas"])


def test_there_are_two_versions_to_describe(service):
    assert service.send("GET", "/$discovery/rest?version=v3")[0] == 404
    assert service.send("GET", "/$discovery/rest")[1]["version"] == "v2"  # as Ray asks


def methods_in(resources):
    for resource in resources.values():
        for method in resource["methods"].values():
            yield method["id"], method
        yield from methods_in(resource.get("resources", {}))


def references(document):
    """Every schema that a discovery document refers to."""
    if isinstance(document, dict):
        if isinstance(document.get("$ref"), str):
            yield document["$ref"]
        for value in document.values():
            yield from references(value)
    elif isinstance(document, list):
        for value in document:
            yield from references(value)
