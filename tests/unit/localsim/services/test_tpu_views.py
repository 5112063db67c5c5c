"""One state, seen through the messages of both versions, with and without what only REST has."""

import pytest
from google.protobuf import json_format

from localsim.rules.db.collection import Page
from localsim.rules.model.cloud_errors import Code, Failure
from localsim.rules.model.nodes import (
    AcceleratorConfig,
    BootDisk,
    DataDisk,
    Health,
    Node,
    NodeSpec,
    NodeState,
    Scheduling,
    Symptom,
)
from localsim.rules.model.operations import Operation, Verb
from localsim.rules.model.queued_resources import (
    Initiator,
    QueuedResource,
    QueuedResourceSpec,
    QueueingPolicy,
    RequestedNode,
    RequestState,
    Tier,
)
from localsim.rules.supply.reservations import Reservation
from localsim.services.tpu.proto_messages import GRPC_MESSAGES
from localsim.services.tpu.rest_messages import REST_MESSAGES
from localsim.services.tpu.tpu_views import TpuViews, build_response
from localsim.worker_facts import Maintenance

ZONE = "projects/p/locations/z"
NOW_S = 1_800_000_000.0
NOW = "2027-01-15T08:00:00Z"
VIEWS = {
    ("grpc", "v2"): TpuViews(GRPC_MESSAGES["v2"]),
    ("grpc", "v2alpha1"): TpuViews(GRPC_MESSAGES["v2alpha1"]),
    ("rest", "v2"): TpuViews(REST_MESSAGES["v2"]),
    ("rest", "v2alpha1"): TpuViews(REST_MESSAGES["v2alpha1"]),
}
EVERYWHERE = set(VIEWS)
OVER_REST = {("rest", "v2"), ("rest", "v2alpha1")}
IN_V2 = {("grpc", "v2"), ("rest", "v2")}
IN_ALPHA = {("grpc", "v2alpha1"), ("rest", "v2alpha1")}

SPEC = NodeSpec(
    accelerator_type="v5litepod-4",
    runtime_version="r",
    accelerator_config=AcceleratorConfig("V5LITE_POD", "2x2"),
    scheduling=Scheduling(
        spot=True,
        provisioning_model="SPOT",
        reservation_name="r",
        termination_time_s=NOW_S,
    ),
    data_disks=(DataDisk("d", "READ_ONLY", ("0",)),),
    autocheckpoint_enabled=True,
    boot_disk=BootDisk("k", enable_confidential_compute=True),
    rest_only={"bootDiskConfig": {"diskSizeGb": "7"}, "confidentialInstanceConfig": {"a": "b"}},
)
NODE = Node(
    name=f"{ZONE}/nodes/a",
    id=3,
    spec=SPEC,
    state=NodeState.REPAIRING,
    create_time_s=NOW_S,
    addresses=("10.0.0.1", "10.0.0.2"),
    queued_resource=f"{ZONE}/queuedResources/q",
    health=Health.UNHEALTHY_MAINTENANCE,
    health_description="h",
    symptoms=(Symptom(NOW_S, "OUT_OF_MEMORY", "s", "1"),),
    external_addresses=("1.1.1.1", "1.1.1.2"),
    multislice=True,
    maintenance=Maintenance(
        type="SCHEDULED",
        can_reschedule=True,
        window_start_s=NOW_S,
        window_end_s=NOW_S + 60,
        latest_window_start_s=NOW_S + 30.5,
        status="PENDING",
    ),
)
MAINTENANCE = {
    "type": "SCHEDULED",
    "canReschedule": True,
    "windowStartTime": NOW,
    "windowEndTime": "2027-01-15T08:01:00Z",
    "latestWindowStartTime": "2027-01-15T08:00:30Z",
    "maintenanceStatus": "PENDING",
}
KEY = {"customerEncryptionKey": {"kmsKeyName": "k"}, "enableConfidentialCompute": True}


def request(spec, state=RequestState.ACCEPTED, failure=None):
    name = f"{ZONE}/queuedResources/q"
    return QueuedResource(name, spec, state, Initiator.USER, NOW_S, failure)


def seen(view, message):
    return json_format.MessageToDict(message, descriptor_pool=view.messages.pool)


def at(document, path):
    """What is at `a.0.b` of a document; None when there is nothing."""
    for part in path.split("."):
        try:
            document = document[int(part) if part.isdecimal() else part]
        except (KeyError, IndexError):
            return None
    return document


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("name", NODE.name, EVERYWHERE),
        ("id", "3", EVERYWHERE),
        ("state", "REPAIRING", EVERYWHERE),
        ("health", "UNHEALTHY_MAINTENANCE", EVERYWHERE),
        ("healthDescription", "h", EVERYWHERE),
        ("createTime", NOW, EVERYWHERE),
        ("queuedResource", f"{ZONE}/queuedResources/q", EVERYWHERE),
        ("multisliceNode", True, EVERYWHERE),
        ("acceleratorConfig", {"type": "V5LITE_POD", "topology": "2x2"}, EVERYWHERE),
        ("symptoms.0.symptomType", "OUT_OF_MEMORY", EVERYWHERE),
        ("symptoms.0.createTime", NOW, EVERYWHERE),
        ("networkEndpoints.1.ipAddress", "10.0.0.2", EVERYWHERE),
        ("networkEndpoints.1.port", 8470, EVERYWHERE),
        ("networkEndpoints.1.accessConfig.externalIp", "1.1.1.2", EVERYWHERE),
        ("dataDisks.0.mode", "READ_ONLY", EVERYWHERE),
        ("schedulingConfig.spot", True, EVERYWHERE),
        ("apiVersion", "V2", IN_V2),
        ("apiVersion", "V2_ALPHA1", IN_ALPHA),
        ("autocheckpointEnabled", True, IN_ALPHA),
        ("upcomingMaintenance", MAINTENANCE, EVERYWHERE - {("grpc", "v2")}),
        ("bootDiskConfig", KEY, {("grpc", "v2alpha1")}),
        ("bootDiskConfig", {**KEY, "diskSizeGb": "7"}, OVER_REST),
        ("confidentialInstanceConfig", {"a": "b"}, OVER_REST),
        ("dataDisks.0.workerIds", ["0"], OVER_REST),
        ("schedulingConfig.provisioningModel", "SPOT", OVER_REST),
        ("schedulingConfig.reservationName", "r", OVER_REST),
        ("schedulingConfig.terminationTimestamp", NOW, OVER_REST),
    ],
)
def test_a_field_of_a_node_is_seen_where_the_version_has_it(path, value, where):
    found = {key for key, view in VIEWS.items() if at(seen(view, view.node(NODE)), path) == value}
    assert found == where


@pytest.mark.parametrize(
    ("spec", "path", "value", "where"),
    [
        ({"tier": Tier.SPOT}, "spot", {}, EVERYWHERE),
        ({"tier": Tier.BEST_EFFORT}, "bestEffort", {}, IN_ALPHA),
        (
            {"tier": Tier.GUARANTEED, "min_duration_s": 60},
            "guaranteed.minDuration",
            "60s",
            EVERYWHERE,
        ),
        ({"tier": Tier.GUARANTEED, "reserved": True}, "guaranteed.reserved", True, IN_ALPHA),
        ({"reservation_name": "r"}, "reservationName", "r", EVERYWHERE),
        ({"provisioning_model": "FLEX_START"}, "provisioningModel", "FLEX_START", OVER_REST),
        ({"max_run_duration_s": 90.0}, "runDuration.maxRunDuration", "90s", OVER_REST),
        ({"rest_only": {"trafficConfig": {"a": "b"}}}, "trafficConfig", {"a": "b"}, OVER_REST),
    ],
)
def test_a_field_of_a_request_is_seen_where_the_version_has_it(spec, path, value, where):
    asked = request(QueuedResourceSpec(nodes=(), **spec))
    found = {
        key
        for key, view in VIEWS.items()
        if at(seen(view, view.queued_resource(asked)), path) == value
    }
    assert found == where


@pytest.mark.parametrize(
    ("queueing", "policy"),
    [
        (QueueingPolicy("valid_until_time", until_s=NOW_S), {"validUntilTime": NOW}),
        (QueueingPolicy("valid_after_time", after_s=NOW_S), {"validAfterTime": NOW}),
        (
            QueueingPolicy("valid_until_duration", until_s=NOW_S, duration_s=5),
            {"validUntilTime": NOW},
        ),
        (
            QueueingPolicy("valid_after_duration", after_s=NOW_S, duration_s=0),
            {"validAfterTime": NOW},
        ),
        (
            QueueingPolicy("valid_interval", after_s=NOW_S, until_s=NOW_S + 1),
            {"validInterval": {"startTime": NOW, "endTime": "2027-01-15T08:00:01Z"}},
        ),
    ],
)
@pytest.mark.parametrize("view", VIEWS.values(), ids=map("-".join, VIEWS))
def test_a_window_is_seen_with_the_moments_it_means(view, queueing, policy):
    message = view.queued_resource(request(QueuedResourceSpec(nodes=(), queueing=queueing)))
    assert seen(view, message)["queueingPolicy"] == policy


@pytest.mark.parametrize("wire, version", VIEWS, ids=map("-".join, VIEWS))
def test_a_requested_node_is_shown_as_it_was_asked_for(wire, version):
    view = VIEWS[wire, version]
    spec = QueuedResourceSpec(nodes=(RequestedNode(ZONE, "s-0", SPEC),))
    (wanted,) = seen(view, view.queued_resource(request(spec)))["tpu"]["nodeSpec"]
    assert (wanted["parent"], wanted["nodeId"]) == (ZONE, "s-0")
    assert wanted["node"]["acceleratorType"] == "v5litepod-4"
    assert ("confidentialInstanceConfig" in wanted["node"]) == (wire == "rest")


@pytest.mark.parametrize("view", VIEWS.values(), ids=map("-".join, VIEWS))
def test_every_state_but_waiting_has_data(view):
    for state in RequestState:
        found = seen(view, view.queued_resource(request(QueuedResourceSpec(()), state)))["state"]
        data = [key for key in found if key.endswith("Data")]
        assert (found["state"], len(data)) == (state, state != "WAITING_FOR_RESOURCES")
    failed = request(
        QueuedResourceSpec(()), RequestState.FAILED, Failure(Code.RESOURCE_EXHAUSTED, "no")
    )
    error = seen(view, view.queued_resource(failed))["state"]["failedData"]["error"]
    assert error == {"code": 8, "message": "no"}


@pytest.mark.parametrize("view", VIEWS.values(), ids=map("-".join, VIEWS))
def test_an_operation_carries_the_classes_of_its_view(view):
    package = view.messages.package
    done = Operation("o", "t", Verb.CREATE, NOW_S, NOW_S + 1, node=NODE, status_detail="d")
    document = seen(view, view.operation(done))
    metadata = document["metadata"]
    over_rest = view in (VIEWS["rest", "v2"], VIEWS["rest", "v2alpha1"])
    speaker = "google.cloud.common" if over_rest else package
    assert metadata.pop("@type") == f"type.googleapis.com/{speaker}.OperationMetadata"
    assert metadata.pop("cancelRequested", None) is (False if over_rest else None)
    assert metadata == {
        "createTime": NOW,
        "endTime": "2027-01-15T08:00:01Z",
        "target": "t",
        "verb": "create",
        "statusDetail": "d",
        "apiVersion": view.messages.version,
    }
    assert document["response"]["@type"].endswith(f"/{package}.Node")


def test_a_list_is_encoded_again_when_something_in_it_changed():
    view = TpuViews(GRPC_MESSAGES["v2"])
    other = Node(f"{ZONE}/nodes/b", 4, SPEC, NodeState.READY, NOW_S, ())
    parsed = view.messages["ListNodesResponse"].FromString
    first = view.nodes(Page((NODE,), "t", (ZONE,)))
    assert view.nodes(Page((NODE,), "t", (ZONE,))) is first
    second = parsed(view.nodes(Page((NODE, other))))
    assert [node.name for node in second.nodes] == [NODE.name, other.name]
    assert second.next_page_token == ""
    assert list(parsed(first).unreachable) == [ZONE]
    assert view.messages["Node"].FromString(view.encoded_node(NODE)) == view.node(NODE)


def test_reservations_are_of_v2alpha1():
    view = VIEWS["grpc", "v2alpha1"]
    held = Reservation(f"{ZONE}/reservations/r", "v4", 64, "CORES", "ACTIVE", NOW_S, NOW_S + 1, 8)
    (document,) = seen(
        view, build_response(view.messages["ListReservationsResponse"], Page((held,), "t"))
    )["reservations"]
    assert document == {
        "name": f"{ZONE}/reservations/r",
        "state": "ACTIVE",
        "standard": {
            "size": 64,
            "capacityUnits": "CORES",
            "resourceType": "v4",
            "interval": {"startTime": NOW, "endTime": "2027-01-15T08:00:01Z"},
            "usage": {"total": "8"},
        },
    }
