"""Every refusal that has been seen of Google's, through every client that Google has."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from google.api_core.exceptions import Forbidden, GoogleAPICallError, NotFound

from client.tpu.examples import NODE, ONE_WORKER, REQUEST, filing, make_node, node_request, state_of
from client.tpu.tpu_service import ZONE, Service
from client.workers.doors import Door

pytest_plugins = ("client.tpu.tpu_fixtures",)

EID = r"\[EID: 0x[0-9a-f]{16}\]"
CLOSED = "projects/demo/locations/us-east5-b"
LITEPOD = "TPUV5sLitepodPerProjectPerZoneForTPUAPI"
SPOT_LITEPOD = "TPUV5sPreemptibleLitepodPerProjectPerZoneForTPUAPI"
HTTP = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "RESOURCE_EXHAUSTED": 429,
    "UNAVAILABLE": 503,
}


@dataclass(frozen=True)
class Refusal:
    """A call that is refused at once, and status and words of the answer."""

    method: str
    request: dict[str, Any]
    status: str
    words: str
    scenario: dict[str, Any] = field(default_factory=dict)
    given: Callable[[Door, Service], Any] | None = None


AT_ONCE = {
    "a type that the zone does not have": Refusal(
        "CreateNode",
        node_request(kind="v4-8"),
        "INVALID_ARGUMENT",
        rf"'v4-8' could not be found among the accelerator configurations of zone .* {EID}",
    ),
    "a type that does not exist": Refusal(
        "CreateNode",
        node_request(kind="v5litepod-17"),
        "INVALID_ARGUMENT",
        rf"'v5litepod-17' could not be found among the accelerator configurations .* {EID}",
    ),
    "a zone that is not served": Refusal(
        "ListNodes",
        {"parent": "projects/demo/locations/mars-1a"},
        "INVALID_ARGUMENT",
        rf"requested zone 'mars-1a' is not supported\. {EID}",
    ),
    "more than the quota": Refusal(
        "CreateNode",
        node_request(),
        "RESOURCE_EXHAUSTED",
        rf"{LITEPOD}.*[Ll]imit: 8 in region us-west4, zone us-west4-a.* {EID}",
        scenario={"quota": {LITEPOD: 8}},
    ),
    "a zone that is not open to the project": Refusal(
        "CreateNode",
        {**node_request(), "parent": CLOSED},
        "PERMISSION_DENIED",
        r"Permission denied on 'locations/us-east5-b' \(or it may not exist\)",
        scenario={"closed_zones": ["us-east5-b"]},
    ),
    "a project without billing": Refusal(
        "ListNodes",
        {"parent": ZONE},
        "PERMISSION_DENIED",
        r"requires billing to be enabled",
        scenario={"billing": "disabled"},
    ),
    "a service that is not enabled": Refusal(
        "CreateNode",
        node_request(),
        "PERMISSION_DENIED",
        r"Cloud TPU API has not been used in project \d+ before or it is disabled",
        scenario={"tpu_api": "disabled"},
    ),
    "a creation, without a reason": Refusal(
        "CreateNode",
        node_request(),
        "INVALID_ARGUMENT",
        rf"unable to complete the operation\. {EID}",
        scenario={"faults": ["CreateNode: INVALID_ARGUMENT"]},
    ),
    "get what there is not": Refusal("GetNode", {"name": NODE}, "NOT_FOUND", NODE),
    "get a request that there is not": Refusal(
        "GetQueuedResource", {"name": REQUEST}, "NOT_FOUND", REQUEST
    ),
    "delete what there is not": Refusal("DeleteNode", {"name": NODE}, "NOT_FOUND", NODE),
    "a node id that is taken": Refusal(
        "CreateNode", node_request(), "ALREADY_EXISTS", NODE, given=make_node
    ),
    "a request id that is taken": Refusal(
        "CreateQueuedResource",
        filing(node_id="b"),
        "ALREADY_EXISTS",
        REQUEST,
        given=lambda door, _: door.call("CreateQueuedResource", filing()),
    ),
    "somebody else's project": Refusal(
        "ListNodes", {"parent": "projects/other/locations/-"}, "PERMISSION_DENIED", "other"
    ),
    "stop a slice of several workers": Refusal(
        "StopNode",
        {"name": NODE},
        "FAILED_PRECONDITION",
        rf"more than one worker\. {EID}",
        given=make_node,
    ),
    "start what runs": Refusal(
        "StartNode",
        {"name": NODE},
        "FAILED_PRECONDITION",
        rf"is not supported while in state READY\. {EID}",
        given=make_node,
    ),
    "delete an ACTIVE request without force": Refusal(
        "DeleteQueuedResource",
        {"name": REQUEST},
        "FAILED_PRECONDITION",
        rf"is not supported while in state ACTIVE\. {EID}",
        given=lambda door, service: (
            door.call("CreateQueuedResource", filing()),
            service.advance(5),
        ),
    ),
    "delete a PROVISIONING request": Refusal(
        "DeleteQueuedResource",
        {"name": REQUEST, "force": True},
        "FAILED_PRECONDITION",
        rf"is not supported while in state PROVISIONING\. {EID}",
        given=lambda door, service: (
            door.call("CreateQueuedResource", filing()),
            service.advance(0.5),
        ),
    ),
}


@pytest.mark.parametrize("case", AT_ONCE)
def test_refused_at_once(door, service, case):
    refusal = AT_ONCE[case]
    service.behave(**refusal.scenario)
    if refusal.given is not None:
        refusal.given(door, service)
    with pytest.raises(GoogleAPICallError, match=refusal.words) as refused:
        door.call(refusal.method, refusal.request)
    assert (status_of(refused.value), refused.value.code) == (refusal.status, HTTP[refusal.status])


def status_of(error: GoogleAPICallError) -> str:
    """As gRPC spells it, or as the body of the HTTP reply does."""
    if not hasattr(error.response, "text"):
        return error.grpc_status_code.name
    (found,) = re.findall(r'"status": ?"(\w+)"', error.response.text)
    return found


def test_a_zone_that_is_closed_says_why_in_an_error_info(door, service):
    service.behave(closed_zones=["us-east5-b"])
    with pytest.raises(Forbidden) as refused:
        door.call("ListNodes", {"parent": CLOSED})
    assert refused.value.reason == "LOCATION_POLICY_VIOLATED"
    assert refused.value.metadata["location"] == "us-east5-b"


@pytest.mark.parametrize(
    ("setting", "reason"), [("billing", "BILLING_DISABLED"), ("tpu_api", "SERVICE_DISABLED")]
)
def test_a_project_that_may_not_use_the_api_says_why_in_an_error_info(
    door, service, setting, reason
):
    service.behave(**{setting: "disabled"})
    with pytest.raises(Forbidden) as refused:
        door.call("ListNodes", {"parent": ZONE})
    assert refused.value.reason == reason
    assert refused.value.metadata["service"] == "tpu.googleapis.com"


IN_THE_OPERATION = {
    "no capacity": (
        {"capacity": {"us-west4-a": {"v5litepod-16": 0}}},
        node_request(),
        "RESOURCE_EXHAUSTED",
        rf"no more capacity in the zone \"us-west4-a\".*us-east5-b.* {EID}",
    ),
    "a reservation that is too small": (
        {
            "reservations": [
                {
                    "name": "r",
                    "zone": "us-west4-a",
                    "accelerator_type": "v5litepod-4",
                    "slices": 1,
                }
            ]
        },
        node_request(scheduling_config={"reserved": True}),
        "FAILED_PRECONDITION",
        rf"insufficient reserved capacity.* {EID}",
    ),
}


@pytest.mark.parametrize("case", IN_THE_OPERATION)
def test_refused_in_the_operation(door, service, case):
    scenario, request, status, words = IN_THE_OPERATION[case]
    service.behave(**scenario)
    operation = door.call("CreateNode", request)
    service.advance(60)
    fails_with(door, operation, status, words)
    with pytest.raises(NotFound):
        door.call("GetNode", {"name": NODE})


def fails_with(door: Door, operation: Any, status: str, words: str) -> None:
    """The operation has ended so; the asyncio client has one class for all such errors."""
    with pytest.raises(GoogleAPICallError, match=words) as failed:
        door.result(operation)
    assert door.transport == "asyncio" or failed.value.grpc_status_code.name == status


def test_an_update_in_the_wrong_state_fails_in_the_operation(door, service):
    make_node(door, service, scheduling_config={"spot": True})
    service.preempt(NODE)
    changed = {"name": NODE, "description": "x"}
    operation = door.call(
        "UpdateNode", {"node": changed, "update_mask": {"paths": ["description"]}}
    )
    service.advance(5)
    words = rf"not supported .*in state PREEMPTED.* {EID}"
    fails_with(door, operation, "INVALID_ARGUMENT", words)


EXTERNAL = {"network_config": {"enable_external_ips": True}}
FAILED = {
    "quota": ({"quota": {SPOT_LITEPOD: 8}}, {}, 8, rf"{SPOT_LITEPOD}.*8.*us-west4.* {EID}"),
    "external addresses": (
        {"quota": {"IN_USE_ADDRESSES": 3}},
        EXTERNAL,
        8,
        r"Quota 'IN_USE_ADDRESSES' exceeded. Limit: 3.0 in region us-west4.",
    ),
    "a policy": (
        {"external_ips": "disabled"},
        EXTERNAL,
        9,
        r"Constraint constraints/compute.vmExternalIpAccess violated for project \d+",
    ),
    "a full subnet": (
        {"subnets": {"us-west4-a": 3}},
        {},
        8,
        r"IP_SPACE_EXHAUSTED: IP space of 'projects/\S+/regions/us-west4/subnetworks/default' is ",
    ),
    "no network": (
        {"networks": []},
        {},
        5,
        r"The resource 'projects/\S+/global/networks/default' was not found",
    ),
}


@pytest.mark.parametrize("case", FAILED)
def test_a_request_fails_and_says_why(door, service, case):
    scenario, fields, code, words = FAILED[case]
    service.behave(**scenario)
    wanted = filing(spot={})
    wanted["queued_resource"]["tpu"]["node_spec"][0]["node"].update(fields)
    door.result(door.call("CreateQueuedResource", wanted))
    service.advance(60)
    assert state_of(door) == ("FAILED", "SERVICE")
    found = door.call("GetQueuedResource", {"name": REQUEST}).state.failed_data.error
    assert found.code == code
    assert re.search(words, found.message), found.message


def test_a_request_whose_capacity_goes_at_the_last_moment_fails(door, service):
    door.call("CreateQueuedResource", filing())
    service.advance(0.5)
    assert state_of(door)[0] == "PROVISIONING"
    service.fault("capacity us-west4-a v5litepod-16: 0")
    service.advance(60)
    found = door.call("GetQueuedResource", {"name": REQUEST}).state
    assert (found.state.name, found.failed_data.error.code) == ("FAILED", 8)
    assert "ZONE_RESOURCE_POOL_EXHAUSTED" in found.failed_data.error.message


def test_the_legacy_nodes_of_v1_are_refused_to_everybody(service):
    status, answer = service.send(
        "POST", f"/v1/{ZONE}/nodes?nodeId=a", {"acceleratorType": "v2-8", "tensorflowVersion": "2"}
    )
    assert (status, answer["error"]["status"]) == (400, "FAILED_PRECONDITION"), answer


@pytest.mark.parametrize("version", ["v2", "v2alpha1"])
def test_flex_start_where_it_is_not_offered_fails_in_the_operation(service, version):
    body = {
        "tpu": {
            "nodeSpec": [
                {
                    "parent": "projects/demo/locations/us-central2-b",
                    "nodeId": "a",
                    "node": {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"},
                }
            ]
        },
        "provisioningModel": "FLEX_START",
        "runDuration": {"maxRunDuration": "3600s"},
    }
    path = f"/{version}/projects/demo/locations/us-central2-b/queuedResources"
    status, operation = service.send("POST", f"{path}?queuedResourceId=q", body)
    assert status == 200, operation
    service.advance(5)
    _, found = service.send("GET", f"/{version}/{operation['name']}")
    assert found["error"]["code"] == 3
    assert "[EID: 0x" in found["error"]["message"]


def test_an_injected_fault_is_refused_in_the_words_of_google(door, service):
    service.behave(faults=["GetNode: UNAVAILABLE x1", "GetNode: PERMISSION_DENIED x1 after call 1"])
    make_node(door, service, kind=ONE_WORKER)
    expected = {
        "UNAVAILABLE": "currently unavailable",
        "PERMISSION_DENIED": "does not have permission",
    }
    for status, words in expected.items():
        with pytest.raises(GoogleAPICallError, match=words) as refused:
            door.call("GetNode", {"name": NODE})
        assert status_of(refused.value) == status
    assert door.call("GetNode", {"name": NODE}).accelerator_type == ONE_WORKER
