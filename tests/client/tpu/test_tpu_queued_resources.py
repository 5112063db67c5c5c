"""Queued resources, as Google's unmodified client sees them."""

import pytest
from google.api_core.exceptions import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
)
from google.cloud import tpu_v2

from client.tpu.tpu_service import START_S, ZONE, serving
from localsim.clock import Clock
from localsim.rules.scenario.scenario import Scenario

pytest_plugins = ("client.tpu.tpu_fixtures",)

State = tpu_v2.QueuedResourceState.State
Initiator = tpu_v2.QueuedResourceState.StateInitiator
NAME = f"{ZONE}/queuedResources/q"
NODE = f"{ZONE}/nodes/a"


def wanted(node_id="a", **fields) -> tpu_v2.QueuedResource:
    node = {"accelerator_type": "v5litepod-16", "runtime_version": "v2-alpha-tpuv5-lite"}
    spec = {"parent": ZONE, "node_id": node_id, "node": node}
    return tpu_v2.QueuedResource({"tpu": {"node_spec": [spec]}, "spot": {}, **fields})


def file(client, queued_resource_id="q", node_id="a", request_id=""):
    return client.create_queued_resource(
        tpu_v2.CreateQueuedResourceRequest(
            parent=ZONE,
            queued_resource_id=queued_resource_id,
            queued_resource=wanted(node_id),
            request_id=request_id,
        )
    )


def delete(client, *, force):
    request = tpu_v2.DeleteQueuedResourceRequest(name=NAME, force=force)
    return client.delete_queued_resource(request)


def state(client, name=NAME):
    found = client.get_queued_resource(name=name).state
    return found.state.name, found.state_initiator.name


@pytest.fixture
def active(service, client):
    file(client).result()
    service.advance(2)
    assert state(client) == ("ACTIVE", "SERVICE")
    return client


def test_a_request_becomes_a_node(service, client):
    filed = file(client).result()
    assert (filed.name, filed.state.state) == (NAME, State.ACCEPTED)
    with pytest.raises(NotFound):
        client.get_node(name=NODE)
    service.advance(0.5)
    assert state(client) == ("PROVISIONING", "SERVICE")
    node = client.get_node(name=NODE)
    assert (node.state.name, node.queued_resource) == ("CREATING", NAME)
    assert node.scheduling_config.spot
    service.advance(1)
    assert state(client) == ("ACTIVE", "SERVICE")
    assert client.get_node(name=NODE).state.name == "READY"
    (listed,) = client.list_queued_resources(parent="projects/demo/locations/-")
    assert [spec.node_id for spec in listed.tpu.node_spec] == ["a"]
    assert "spot" in listed
    assert "active_data" in listed.state
    assert listed.create_time.timestamp() == START_S


def test_the_same_request_id_files_once(service, client):
    first = file(client, request_id="8d3c3d0e-3f1d-4a8e-9f0b-0a4a53b0a001").operation.name
    assert file(client, request_id="8d3c3d0e-3f1d-4a8e-9f0b-0a4a53b0a001").operation.name == first
    with pytest.raises(AlreadyExists):
        file(client, request_id="8d3c3d0e-3f1d-4a8e-9f0b-0a4a53b0a002")
    assert len(list(client.list_queued_resources(parent=ZONE))) == 1


def test_preemption_suspends_the_request(service, active):
    service.preempt(NODE)
    assert active.get_node(name=NODE).state.name == "PREEMPTED"
    assert state(active) == ("SUSPENDING", "SERVICE")
    service.advance(1)
    assert state(active) == ("SUSPENDED", "SERVICE")
    service.advance(3600)
    assert state(active) == ("SUSPENDED", "SERVICE")


def test_deleting_its_node_suspends_the_request(service, active):
    active.delete_node(name=NODE)
    service.advance(1)
    assert state(active) == ("SUSPENDED", "USER")


def test_an_active_request_is_deleted_only_by_force(service, active):
    with pytest.raises(FailedPrecondition, match="'delete' of .* while in state ACTIVE"):
        delete(active, force=False)
    operation = delete(active, force=True)
    assert state(active) == ("DELETING", "USER")
    assert active.get_node(name=NODE).state.name == "DELETING"
    service.advance(1)
    assert operation.result() is not None
    assert operation.operation.response.type_url.endswith("/google.protobuf.Empty")
    with pytest.raises(NotFound):
        active.get_queued_resource(name=NAME)
    with pytest.raises(NotFound):
        active.get_node(name=NODE)


def test_a_provisioning_request_cannot_be_deleted(service, client):
    file(client)
    service.advance(0.5)
    with pytest.raises(FailedPrecondition, match="while in state PROVISIONING"):
        delete(client, force=True)


def test_an_accepted_request_is_deleted_without_force(service, client):
    file(client).result()
    delete(client, force=False)
    service.advance(5)
    assert list(client.list_queued_resources(parent=ZONE)) == []
    assert list(client.list_nodes(parent=ZONE)) == []


def test_a_suspended_request_makes_room_for_the_same_name(service, active):
    service.preempt(NODE)
    service.advance(1)
    delete(active, force=False)
    service.advance(1)
    file(active).result()
    service.advance(2)
    assert state(active) == ("ACTIVE", "SERVICE")


def test_a_node_of_a_request_cannot_stop(service, active):
    with pytest.raises(FailedPrecondition):
        active.stop_node(tpu_v2.StopNodeRequest(name=NODE))


def test_a_request_waits_until_there_is_capacity(tmp_path):
    scenario = Scenario(capacity={"us-west4-a": {"v5litepod-16": 1}})
    clock = Clock(manual_start_s=START_S)
    with serving(tmp_path / "s", clock=clock, scenario=scenario) as service:
        client = service.client()
        file(client)
        service.advance(2)
        file(client, "waiting", "b")
        service.advance(60)
        assert state(client, f"{ZONE}/queuedResources/waiting")[0] == "WAITING_FOR_RESOURCES"
        assert len(list(client.list_nodes(parent=ZONE))) == 1
        service.preempt(NODE)
        service.advance(2)
        assert state(client, f"{ZONE}/queuedResources/waiting")[0] == "ACTIVE"


def test_a_node_name_that_was_taken_meanwhile_fails_the_request(service, client):
    file(client)
    client.create_node(
        parent=ZONE,
        node_id="a",
        node={"accelerator_type": "v5litepod-4", "runtime_version": "v2-alpha-tpuv5-lite"},
    )
    service.advance(1)
    found = client.get_queued_resource(name=NAME).state
    assert (found.state.name, found.failed_data.error.code) == ("FAILED", 6)


@pytest.mark.parametrize(
    ("resource", "error", "cause"),
    [
        (wanted(node_id=""), InvalidArgument, "Invalid node id"),
        (tpu_v2.QueuedResource(), InvalidArgument, "one node spec"),
        (
            wanted(tpu={"node_spec": [{"parent": "projects/demo/locations/us-east5-b"}]}),
            InvalidArgument,
            "parent must be",
        ),
    ],
)
def test_what_cannot_be_filed(client, resource, error, cause):
    with pytest.raises(error, match=cause):
        client.create_queued_resource(parent=ZONE, queued_resource_id="q", queued_resource=resource)
    assert list(client.list_queued_resources(parent=ZONE)) == []
