"""The facts of seven exchanges of Google's Cloud TPU API: a node's life as gcloud leads it.

Somebody recorded `gcloud compute tpus tpu-vm create`, `describe`, `update --description` and
`delete` of a v5p-8 (GoogleCloudPlatform/k8s-config-connector, mockgcp/mocktpu/testdata/node/crud).
The recording has no ids, times and addresses. It leaves out `"done": false` and
`"cancelRequested": false` too, which Google's operations had (tests/e2e/normalize.go there).
"""

from collections.abc import Iterator
from typing import Any

ZONE = "projects/recorded-project/locations/us-central1-a"
NODE = f"{ZONE}/nodes/test-1"
SCOPES = (
    "devstorage.read_write",
    "logging.write",
    "service.management",
    "servicecontrol",
    "cloud-platform",
    "pubsub",
)
WANTED = {
    "acceleratorType": "v5p-8",
    "metadata": {},
    "networkConfig": {"enableExternalIps": True, "network": "default"},
    "runtimeVersion": "tpu-vm-cos-stable",
    "schedulingConfig": {"preemptible": False, "reserved": False, "spot": False},
    "shieldedInstanceConfig": {"enableSecureBoot": False},
}
CREATED = {
    "name": NODE,
    "acceleratorType": "v5p-8",
    "state": "READY",
    "runtimeVersion": "tpu-vm-cos-stable",
    "cidrBlock": "10.128.0.0/20",
    "createTime": "2025-03-03T00:00:00Z",
    "schedulingConfig": {},
    "networkEndpoints": [
        {"ipAddress": "10.128.0.2", "port": 8470, "accessConfig": {"externalIp": "203.0.113.1"}}
    ],
    "id": "1",
    "networkConfig": {
        "network": "projects/recorded-project/global/networks/default",
        "subnetwork": "projects/recorded-project/regions/us-central1/subnetworks/default",
        "enableExternalIps": True,
    },
    "serviceAccount": {
        "email": "123456789012-compute@developer.gserviceaccount.com",
        "scope": [f"https://www.googleapis.com/auth/{scope}" for scope in SCOPES],
    },
    "apiVersion": "V2",
    "shieldedInstanceConfig": {},
    "acceleratorConfig": {"type": "V5P", "topology": "2x2x1"},
}
"""The node in the response of the operation that made it: it has no health yet."""
DESCRIBED = {**CREATED, "health": "HEALTHY"}
UPDATED = {**DESCRIBED, "description": "new description"}


def lines() -> Iterator[dict[str, Any]]:
    """The cassette, line by line."""
    yield {"cassette": 1, "api": "tpu.googleapis.com", "started_s": 0}
    calls = [
        (f"POST /v2/{ZONE}/nodes?alt=json&nodeId=test-1", WANTED, begun("create")),
        (f"GET {path_of('create')}", None, ended("create", response_of(CREATED))),
        (f"GET /v2/{NODE}?alt=json", None, DESCRIBED),
        (f"PATCH /v2/{NODE}?alt=json&updateMask=description", UPDATED, begun("update")),
        (f"GET {path_of('update')}", None, ended("update", response_of(UPDATED))),
        (f"DELETE /v2/{NODE}?alt=json", None, begun("delete")),
        (f"GET {path_of('delete')}", None, ended("delete", EMPTY)),
    ]
    for call, request, response in calls:
        entry = {"request": request, "status": 200, "response": response}
        yield {"t_s": 0, "call": f"rest {call}", **entry}


def name_of(verb: str) -> str:
    """The operation of the recording that has the verb."""
    return f"{ZONE}/operations/operation-1-{verb}"


def path_of(verb: str) -> str:
    """The path at which the operation is read."""
    return f"/v2/{name_of(verb)}?alt=json"


def begun(verb: str) -> dict[str, Any]:
    """An operation that runs."""
    metadata = {
        "@type": "type.googleapis.com/google.cloud.common.OperationMetadata",
        "createTime": "2025-03-03T00:00:00Z",
        "target": NODE,
        "verb": verb,
        "cancelRequested": False,
        "apiVersion": "v2",
    }
    return {"name": name_of(verb), "metadata": metadata, "done": False}


def ended(verb: str, response: dict[str, Any]) -> dict[str, Any]:
    """An operation that has succeeded."""
    operation = begun(verb)
    operation["metadata"]["endTime"] = "2025-03-03T00:00:00Z"
    return {**operation, "done": True, "response": response}


def response_of(node: dict[str, Any]) -> dict[str, Any]:
    """The node as the response of an operation."""
    return {"@type": "type.googleapis.com/google.cloud.tpu.v2.Node", **node}


EMPTY = {"@type": "type.googleapis.com/google.protobuf.Empty"}
