"""What both wires do alike: versions, refusals with their details, faults, and localsim's own."""

import http.client
import re
import sqlite3

import grpc
import pytest
from google.api_core import exceptions
from google.cloud import tpu_v2, tpu_v2alpha1
from google.cloud.tpu_v2alpha1.services.tpu.transports import TpuGrpcTransport
from google.longrunning import operations_pb2
from google.protobuf.empty_pb2 import Empty

from client.tpu.tpu_service import ZONE
from localsim.rules.model.cloud_errors import CloudError, Code, ErrorInfo
from localsim.rules.scenario.fault_types import FaultEffect

pytest_plugins = ("client.tpu.tpu_fixtures",)

NODE = {"acceleratorType": "v5litepod-16", "runtimeVersion": "v2-alpha-tpuv5-lite"}
SIZE = {"accelerator_type": "v5litepod-16", "runtime_version": "v2-alpha-tpuv5-lite"}
A = f"{ZONE}/nodes/a"


@pytest.fixture
def alpha(service):
    return tpu_v2alpha1.TpuClient(transport=TpuGrpcTransport(channel=service.channel))


@pytest.fixture
def breaking(service, monkeypatch):
    """`breaking(error)`: from now on GetNode raises it."""

    def arrange(error):
        def get_node(_name):
            raise error

        monkeypatch.setattr(service.world.cloud, "get_node", get_node)

    return arrange


@pytest.fixture
def fault(service, monkeypatch):
    """`fault(verdict)`: what happens to every call of GetNode."""

    def arrange(verdict):
        async def meet_fault(method):
            return verdict if method == "GetNode" else None

        monkeypatch.setattr(service.world, "meet_fault", meet_fault)

    return arrange


def get_operation(service, name):
    """As the mixed-in service answers, which knows no version."""
    call = service.channel.unary_unary(
        "/google.longrunning.Operations/GetOperation",
        request_serializer=operations_pb2.GetOperationRequest.SerializeToString,
        response_deserializer=operations_pb2.Operation.FromString,
    )
    return call(operations_pb2.GetOperationRequest(name=name))


@pytest.mark.parametrize("version", ["v2", "v2alpha1"])
def test_an_operation_speaks_the_version_it_was_begun_with(service, client, alpha, version):
    types, asked = {"v2": (tpu_v2, client), "v2alpha1": (tpu_v2alpha1, alpha)}[version]
    operation = asked.create_node(parent=ZONE, node_id="a", node=types.Node(**SIZE))
    service.advance(5)
    assert operation.result(timeout=5).state.name == "READY"
    found = get_operation(service, operation.operation.name)
    assert found.metadata.type_url.endswith(f"/google.cloud.tpu.{version}.OperationMetadata")
    assert found.response.type_url.endswith(f"/google.cloud.tpu.{version}.Node")


@pytest.mark.parametrize("version", ["v2", "v2alpha1"])
def test_over_rest_an_operation_speaks_the_version_of_the_path(service, client, version):
    operation = client.create_node(parent=ZONE, node_id="a", node=tpu_v2.Node(**SIZE))
    service.advance(5)
    _, found = service.send("GET", f"/{version}/{operation.operation.name}")
    assert found["metadata"]["@type"].endswith("/google.cloud.common.OperationMetadata")
    assert found["metadata"]["apiVersion"] == version
    assert found["response"]["@type"].endswith(f"/google.cloud.tpu.{version}.Node")
    assert found["response"]["apiVersion"] == {"v2": "V2", "v2alpha1": "V2_ALPHA1"}[version]


def test_a_deleted_request_answers_empty_and_the_alpha_client_stumbles_over_it(service, alpha):
    spec = {"parent": ZONE, "node_id": "a", "node": SIZE}
    asked = tpu_v2alpha1.QueuedResource(tpu={"node_spec": [spec]})
    alpha.create_queued_resource(parent=ZONE, queued_resource_id="q", queued_resource=asked)
    service.advance(5)
    name = f"{ZONE}/queuedResources/q"
    request = tpu_v2alpha1.DeleteQueuedResourceRequest(name=name, force=True)
    operation = alpha.delete_queued_resource(request=request)
    service.advance(5)
    assert get_operation(service, operation.operation.name).response.Is(Empty.DESCRIPTOR)
    with pytest.raises(TypeError):
        operation.result(timeout=5)


@pytest.mark.parametrize(
    "node",
    [
        {**SIZE, "data_disks": [{"source_disk": "d", "mode": 7}]},
        {"runtime_version": "x", "accelerator_config": {"type_": 99, "topology": "2x2"}},
    ],
)
def test_an_enum_value_without_a_name_is_an_invalid_argument(client, node):
    with pytest.raises(exceptions.InvalidArgument, match=r"Invalid value at '(mode|type)'"):
        client.create_node(parent=ZONE, node_id="a", node=tpu_v2.Node(**node))


@pytest.mark.parametrize(("field", "value"), [("seconds", 10**15), ("nanos", -1)])
def test_a_moment_out_of_range_is_an_invalid_argument(client, field, value):
    spec = tpu_v2.QueuedResource.Tpu.NodeSpec(parent=ZONE, node_id="a", node=tpu_v2.Node(**SIZE))
    request = tpu_v2.CreateQueuedResourceRequest(parent=ZONE, queued_resource_id="q")
    request.queued_resource.tpu.node_spec.append(spec)
    pb = tpu_v2.CreateQueuedResourceRequest.pb(request)
    setattr(pb.queued_resource.queueing_policy.valid_until_time, field, value)
    with pytest.raises(exceptions.InvalidArgument, match="Timestamp"):
        client.create_queued_resource(request=request)


def test_a_cause_reaches_both_kinds_of_clients(service, client, breaking):
    info = ErrorInfo("LOCATION_POLICY_VIOLATED", "googleapis.com", {"location": "us-west4-a"})
    breaking(CloudError(Code.PERMISSION_DENIED, "Permission denied.", info))
    with pytest.raises(exceptions.PermissionDenied) as caught:
        client.get_node(name=A)
    assert (caught.value.reason, caught.value.domain) == (info.reason, info.domain)
    assert caught.value.metadata == info.metadata
    status, found = service.send("GET", f"/v2/{A}")
    assert status == 403
    assert found["error"]["details"] == [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": info.reason,
            "domain": info.domain,
            "metadata": info.metadata,
        }
    ]


def test_what_does_not_parse_is_an_invalid_argument(service):
    call = service.channel.unary_unary("/google.cloud.tpu.v2.Tpu/GetNode")
    with pytest.raises(grpc.RpcError) as caught:
        call(b"\xff\xff\xff")
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "GetNodeRequest" in caught.value.details()


def test_a_full_disk_is_unavailability_in_one_line(service, client, breaking, capfd):
    breaking(sqlite3.OperationalError("database or disk is full"))
    with pytest.raises(exceptions.ServiceUnavailable, match="database or disk is full"):
        client.get_node(name=A)
    status, found = service.send("GET", f"/v2/{A}")
    assert (status, found["error"]["status"]) == (503, "UNAVAILABLE")
    assert "\n" not in found["error"]["message"]
    assert "Traceback" not in capfd.readouterr().err


def test_what_nobody_foresaw_is_told_on_stderr_alone(service, client, breaking, capfd):
    breaking(ZeroDivisionError("secret"))
    with pytest.raises(exceptions.InternalServerError, match=r"500 Internal error encountered\.$"):
        client.get_node(name=A)
    assert "ZeroDivisionError: secret" in capfd.readouterr().err
    status, found = service.send("GET", f"/v2/{A}")
    assert (status, found["error"]["message"]) == (500, "Internal error encountered.")


def test_a_fault_refuses_before_anything_runs(service, client, fault):
    fault(FaultEffect(code=Code.UNAVAILABLE))
    with pytest.raises(exceptions.ServiceUnavailable, match="currently unavailable"):
        client.get_node(name=A)
    status, found = service.send("GET", f"/v2alpha1/{A}")
    assert (status, found["error"]["status"]) == (503, "UNAVAILABLE")
    assert client.list_nodes(parent=ZONE).nodes == []


def test_a_reset_drops_the_connection(service, client, fault):
    fault(FaultEffect(reset=True))
    with pytest.raises(exceptions.ServiceUnavailable, match="Socket closed"):
        client.get_node(name=A)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        service.send("GET", f"/v2/{A}")
    assert service.send("GET", f"/v2/{ZONE}/nodes")[0] == 200


@pytest.mark.parametrize("text", ["a" * 100_000, "\N{GREEK SMALL LETTER ALPHA}" * 50_000])
def test_a_refusal_that_quotes_much_still_arrives(service, text):
    call = service.channel.unary_unary("/google.cloud.tpu.v2.Tpu/ListNodes")
    with pytest.raises(grpc.RpcError) as caught:
        call(tpu_v2.ListNodesRequest.serialize(tpu_v2.ListNodesRequest(parent=text)))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert re.match(r"Malformed name: .* … .*\[EID: 0x", caught.value.details())


def test_four_mebibytes_are_the_most(service, client):
    description = "x" * (4 * 1024 * 1024)
    node = tpu_v2.Node(description=description, **SIZE)
    with pytest.raises(exceptions.ResourceExhausted):
        client.create_node(parent=ZONE, node_id="a", node=node)
    body = {**NODE, "description": description}
    status, found = service.send("POST", f"/v2/{ZONE}/nodes?nodeId=a", body)
    assert (status, found["error"]["code"]) == (413, 413)
    assert "4194304 bytes" in found["error"]["message"]
