"""What an emulated Cloud TPU must not forget, through every client that Google has for it."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from google.api_core.exceptions import FailedPrecondition, GoogleAPICallError

from client.tpu.examples import (
    NODE,
    ONE_WORKER,
    REQUEST,
    filing,
    make_active,
    make_node,
    node,
    node_request,
    slices,
    state_of,
)
from client.tpu.tpu_service import START_S, ZONE

pytest_plugins = ("client.tpu.tpu_fixtures",)

EVERYWHERE = "projects/demo/locations/-"
OTHER_ZONE = "projects/demo/locations/us-east5-b"
HOUR_S = 3600.0


def test_lists_go_over_all_zones_page_by_page(door, service):
    v6e = {"accelerator_type": "v6e-4", "runtime_version": "v2-alpha-tpuv6e"}
    door.call("CreateNode", {"parent": OTHER_ZONE, "node_id": "far", "node": v6e})
    for node_id in ("b", "a"):
        door.call("CreateNode", node_request(node_id))
    found, token = [], ""
    for _ in range(3):
        asked = {"parent": EVERYWHERE, "page_size": 1, "page_token": token}
        page = door.call("ListNodes", asked)
        found += [each.name.rpartition("/")[2] for each in page.nodes]
        token = page.next_page_token
    assert (sorted(found), token) == (["a", "b", "far"], "")


def test_a_zone_that_does_not_answer_is_named(door, service):
    service.behave(unreachable=["us-east5-b"])
    make_node(door, service)
    page = door.call("ListNodes", {"parent": EVERYWHERE})
    assert [each.name for each in page.nodes] == [NODE]
    assert list(page.unreachable) == [OTHER_ZONE]


def test_two_updates_at_a_time_conflict(door, service):
    make_node(door, service)
    update = {
        "node": {"name": NODE, "metadata": {"k": "v"}},
        "update_mask": {"paths": ["metadata"]},
    }
    first = door.call("UpdateNode", update)
    with pytest.raises(GoogleAPICallError) as refused:
        door.call("UpdateNode", update)
    assert refused.value.code == 409
    service.advance(5)
    assert dict(door.result(first).metadata) == {"k": "v"}


def test_metadata_waits_until_the_node_is_ready(door, service):
    door.call("CreateNode", node_request())
    update = {
        "node": {"name": NODE, "metadata": {"k": "v"}},
        "update_mask": {"paths": ["metadata"]},
    }
    with pytest.raises(GoogleAPICallError, match=r"CREATING"):
        operation = door.call("UpdateNode", update)
        service.advance(5)
        door.result(operation)
    assert dict(door.call("GetNode", {"name": NODE}).metadata) == {}


def test_several_slices_become_one_node_spec_each(door, service):
    door.call("CreateQueuedResource", slices(door, 2, prefix="s"))
    service.advance(60)
    assert state_of(door)[0] == "ACTIVE"
    found = door.call("GetQueuedResource", {"name": REQUEST})
    assert [spec.node_id for spec in found.tpu.node_spec] == ["s-0", "s-1"]
    made = [door.call("GetNode", {"name": f"{ZONE}/nodes/s-{index}"}) for index in (0, 1)]
    assert [(each.multislice_node, each.queued_resource) for each in made] == [(True, REQUEST)] * 2


def test_slices_are_named_after_their_request_and_are_more_than_one(door, service):
    with pytest.raises(GoogleAPICallError, match="node count"):
        door.call("CreateQueuedResource", slices(door, 1))
    door.call("CreateQueuedResource", slices(door, 3))
    service.advance(60)
    found = door.call("GetQueuedResource", {"name": REQUEST})
    assert [spec.node_id for spec in found.tpu.node_spec] == ["q-0", "q-1", "q-2"]


def test_the_same_request_id_files_and_deletes_once(door, service):
    request_id = "8d3c3d0e-3f1d-4a8e-9f0b-0a4a53b0a001"
    wanted = {**filing(), "request_id": request_id}
    first, second = (door.call("CreateQueuedResource", wanted) for _ in range(2))
    assert first.operation.name == second.operation.name
    asked = {"name": REQUEST, "request_id": "8d3c3d0e-3f1d-4a8e-9f0b-0a4a53b0a002"}
    first, second = (door.call("DeleteQueuedResource", asked) for _ in range(2))
    assert first.operation.name == second.operation.name


def test_a_request_that_waits_too_long_fails(door, service):
    service.behave(capacity={"us-west4-a": {"v5litepod-16": 0}})
    policy = {"valid_until_duration": timedelta(hours=1)}
    door.call("CreateQueuedResource", filing(queueing_policy=policy))
    found = door.call("GetQueuedResource", {"name": REQUEST}).queueing_policy
    assert found.valid_until_time.timestamp() == START_S + HOUR_S
    service.advance(HOUR_S / 2)
    assert state_of(door)[0] == "WAITING_FOR_RESOURCES"
    service.advance(HOUR_S)
    assert state_of(door) == ("FAILED", "SERVICE")


def test_a_request_does_not_begin_before_its_time(door, service):
    begin = datetime.fromtimestamp(START_S + HOUR_S, UTC)
    door.call("CreateQueuedResource", filing(queueing_policy={"valid_after_time": begin}))
    service.advance(HOUR_S / 2)
    assert state_of(door)[0] in ("ACCEPTED", "WAITING_FOR_RESOURCES")
    service.advance(HOUR_S)
    assert state_of(door)[0] == "ACTIVE"


@pytest.mark.parametrize(("tier", "shown"), [({}, (True, False)), ({"spot": {}}, (False, True))])
def test_a_node_of_a_request_may_ask_to_be_preemptible(service, open_doors, tier, shown):
    door = open_doors["v2-grpc"]
    wanted = filing(**tier)
    wanted["queued_resource"]["tpu"]["node_spec"][0]["node"] = node(
        scheduling_config={"preemptible": True}
    )
    door.call("CreateQueuedResource", wanted)
    service.advance(60)
    scheduling = door.call("GetNode", {"name": NODE}).scheduling_config
    assert (scheduling.preemptible, scheduling.spot) == shown


def test_a_reservation_may_be_any_of_the_project(door, service):
    reserved = {"zone": "us-west4-a", "accelerator_type": "v5litepod-16", "slices": 1}
    service.behave(reservations=[{"name": "r", **reserved}])
    door.call("CreateQueuedResource", filing(reservation_name=f"{ZONE}/reservations/-"))
    service.advance(60)
    assert state_of(door)[0] == "ACTIVE"
    assert door.call("GetNode", {"name": NODE}).scheduling_config.reserved


def test_workers_have_external_addresses_when_they_are_asked_for(door, service):
    made = make_node(door, service, network_config={"enable_external_ips": True})
    found = {end.access_config.external_ip for end in made.network_endpoints}
    assert len(found) == 4
    assert "" not in found
    hidden = make_node(door, service, "b", network_config={"enable_external_ips": False})
    assert {end.access_config.external_ip for end in hidden.network_endpoints} == {""}


def test_names_of_operations_are_google_s(door, service):
    operation = door.call("CreateNode", node_request()).operation
    form = rf"{ZONE}/operations/operation-{int(START_S * 1000)}-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+"
    assert re.fullmatch(form, operation.name)


def test_a_node_id_may_hold_an_underscore_and_labels_may_not_be_anything(door, service):
    assert make_node(door, service, "under_score").name.endswith("/nodes/under_score")
    with pytest.raises(GoogleAPICallError, match="label"):
        door.call("CreateNode", node_request("b", labels={"Upper": "x"}))


def test_the_host_key_is_in_the_guest_attributes_in_the_order_of_the_workers(door, service):
    make_node(door, service)
    told = door.call("GetGuestAttributes", {"name": NODE}).guest_attributes
    keys = [
        item.value
        for worker in told
        for item in worker.query_value.items
        if item.key == "ssh-ed25519"
    ]
    assert keys == ["KEY0", "KEY1", "KEY2", "KEY3"]


def test_offers_are_filtered_and_ordered(door, service):
    asked = {"parent": ZONE, "filter": 'type="v5litepod-16"'}
    found = door.call("ListAcceleratorTypes", asked).accelerator_types
    assert [each.type_ for each in found] == ["v5litepod-16"]


@pytest.mark.parametrize("fields", ["nodes/state", "nodes(state)", "nodes.state"])
def test_a_partial_response_holds_what_was_asked_for(service, open_doors, fields):
    make_node(open_doors["v2-grpc"], service)
    found = service.send("GET", f"/v2/{ZONE}/nodes?fields={fields}")
    assert found == (200, {"nodes": [{"state": "READY"}]})


def test_a_spot_node_is_not_stopped(door, service):
    make_node(door, service, kind=ONE_WORKER, scheduling_config={"spot": True})
    with pytest.raises(GoogleAPICallError, match="spot"):
        door.call("StopNode", {"name": NODE})


def test_a_node_of_a_request_is_not_stopped(door, service):
    make_active(door, service, kind=ONE_WORKER)
    with pytest.raises(GoogleAPICallError, match="queued resource"):
        door.call("StopNode", {"name": NODE})


def test_best_effort_belongs_to_v2alpha1(service, open_doors):
    door = open_doors["v2alpha1-grpc"]
    door.call("CreateQueuedResource", filing(best_effort={}))
    service.advance(60)
    assert "best_effort" in door.call("GetQueuedResource", {"name": REQUEST})
    assert state_of(open_doors["v2-grpc"])[0] == "ACTIVE"


def test_maintenance_that_is_not_announced_is_not_performed(service, open_doors):
    door = open_doors["v2alpha1-grpc"]
    make_node(door, service)
    with pytest.raises(FailedPrecondition, match="maintenance"):
        door.call("PerformMaintenance", {"name": NODE})
