"""Operations: told apart, called off, listed; and requests that are sent twice."""

from dataclasses import replace

import pytest

from localsim.rules.model.cloud_errors import CloudError, Code
from unit.localsim.rules.cloud_rig import NODE, SINGLE, SPOT, ZONE

pytest_plugins = ("unit.localsim.rules.cloud_fixtures",)

ONE = "0a8f1ed4-2c3f-4e0c-9a52-6d6f1c9d8b10"
OTHER = "b2d0f3a6-7b1e-4f0a-8c55-1f0d2e3c4b5a"


def test_a_node_that_waits_for_capacity_can_be_called_off(rig):
    operation = rig.cloud.create_node(ZONE, "a", SPOT)
    rig.cloud.cancel_operation(operation.name)
    ended = rig.cloud.get_operation(operation.name)
    assert (ended.failure.code, ended.cancel_requested) == (Code.CANCELLED, True)
    assert rig.cloud.list_nodes(ZONE).items == ()
    assert rig.cloud.next_due_s() is None
    rig.cloud.cancel_operation(operation.name)
    assert rig.cloud.get_operation(operation.name) == ended


def test_of_other_operations_the_wish_is_noted(rig):
    operation = rig.cloud.create_node(ZONE, "a", SPOT)
    rig.tick(1)  # it has its capacity, and its workers boot
    rig.cloud.cancel_operation(operation.name)
    noted = rig.cloud.get_operation(operation.name)
    assert (noted.cancel_requested, noted.is_done) == (True, False)
    assert noted.status_detail == "Cancellation was requested."
    assert rig.state() == "CREATING"
    deleting = rig.cloud.delete_node(NODE)
    rig.cloud.cancel_operation(deleting.name)
    rig.tick(1)
    assert rig.outcome(deleting) == ""


def test_a_deleted_operation_goes_on_unseen(rig):
    operation = rig.cloud.create_node(ZONE, "a", SPOT)
    rig.cloud.delete_operation(operation.name)
    with pytest.raises(CloudError, match="not found"):
        rig.cloud.get_operation(operation.name)
    rig.live(1)
    assert rig.state() == "READY"


def test_operations_are_listed_by_what_they_are_about(rig):
    rig.ready()
    deleting = rig.cloud.delete_node(NODE)

    def listed(where, parent=ZONE):
        return [each.verb for each in rig.cloud.list_operations(parent, 0, "", where).items]

    assert listed("done=true") == ["create"]
    assert listed("done=false AND metadata.verb=delete") == ["delete"]
    assert listed("metadata.target:nodes/a", "projects/demo/locations/-") == ["create", "delete"]
    assert listed(f'name="{deleting.name}"') == ["delete"]
    assert listed("done=false", "projects/demo/locations/us-east5-b") == []
    with pytest.raises(CloudError, match="'verb' is none of"):
        listed("verb=create")


def test_a_create_request_that_is_sent_twice_makes_one_node(rig):
    first = rig.cloud.create_node(ZONE, "a", SPOT, ONE)
    rig.restart()
    assert rig.cloud.create_node(ZONE, "a", SPOT, ONE.upper()).name == first.name
    rig.live(1)
    assert rig.cloud.create_node(ZONE, "a", SPOT, ONE).is_done
    assert rig.cloud.counts()["nodes"] == 1
    with pytest.raises(CloudError, match="already exists"):
        rig.cloud.create_node(ZONE, "a", SPOT, OTHER)
    with pytest.raises(CloudError, match="used for another request") as refusal:
        rig.cloud.create_node(ZONE, "a", SINGLE, ONE)
    assert refusal.value.code == Code.INVALID_ARGUMENT


def test_a_map_of_a_request_that_is_sent_twice_has_no_order(rig):
    labels = {"a": "1", "b": "2"}
    first = rig.cloud.create_node(ZONE, "a", replace(SPOT, labels=labels), ONE)
    again = replace(SPOT, labels=dict(reversed(labels.items())))
    assert rig.cloud.create_node(ZONE, "a", again, ONE).name == first.name


def test_a_delete_request_that_is_sent_twice_deletes_once(rig):
    rig.ready()
    first = rig.cloud.delete_node(NODE, ONE)
    assert rig.cloud.delete_node(NODE, ONE).name == first.name
    with pytest.raises(CloudError, match="while in state DELETING"):
        rig.cloud.delete_node(NODE, OTHER)
    rig.tick(1)
    assert rig.cloud.delete_node(NODE, ONE).is_done
    with pytest.raises(CloudError, match="not found"):
        rig.cloud.delete_node(NODE, OTHER)
    with pytest.raises(CloudError, match="must be a UUID"):
        rig.cloud.delete_node(NODE, "again")


def test_a_cidr_block_is_for_one_node(rig):
    rig.ready("a", replace(SINGLE, cidr_block="10.1.0.0/28"))
    with pytest.raises(CloudError, match="in use by .*nodes/a") as refusal:
        rig.cloud.create_node(ZONE, "b", replace(SINGLE, cidr_block="10.1.0.8/29"))
    assert refusal.value.code == Code.INVALID_ARGUMENT
    rig.ready("c", replace(SINGLE, cidr_block="10.1.0.16/29"))


def test_the_service_agent(rig):
    agent = "service-7@cloud-tpu.iam.gserviceaccount.com"
    assert rig.cloud.generate_service_identity(ZONE) == agent


def test_lists_over_all_zones_name_those_that_do_not_answer(rigged):
    rig = rigged(unreachable=["us-west4-a"])
    everywhere = "projects/demo/locations/-"
    for listing in (
        rig.cloud.list_nodes,
        rig.cloud.list_accelerator_types,
        rig.cloud.list_runtime_versions,
        rig.cloud.list_operations,
        rig.cloud.list_reservations,
    ):
        page = listing(everywhere)
        assert page.unreachable == (ZONE,)
        assert not any(each.name.startswith(f"{ZONE}/") for each in page.items)


def test_a_zone_can_be_closed_to_the_project(rigged):
    rig = rigged(closed_zones=["us-west4-a"])
    for refused in (
        lambda: rig.cloud.list_nodes(ZONE),
        lambda: rig.cloud.get_node(NODE),
        lambda: rig.cloud.create_node(ZONE, "a", SPOT),
    ):
        with pytest.raises(CloudError, match=r"Permission denied on 'locations/us-west4-a'"):
            refused()
    assert rig.cloud.list_nodes("projects/demo/locations/-").items == ()


def test_offerings_are_filtered_and_sorted(rig):
    def types(**asked):
        return [each.type for each in rig.cloud.list_accelerator_types(ZONE, **asked).items]

    assert types(where="type=v5litepod-16") == ["v5litepod-16"]
    assert types(where="type:v5litepod-1*", order_by="type desc") == [
        "v5litepod-16",
        "v5litepod-128",
        "v5litepod-1",
    ]
    versions = rig.cloud.list_runtime_versions(ZONE, where='version="v2-alpha-tpuv5-lite"').items
    assert [each.version for each in versions] == ["v2-alpha-tpuv5-lite"]
    zones = rig.cloud.list_locations("projects/demo", where="locationId=us-west4-a").items
    assert [each.zone for each in zones] == ["us-west4-a"]
    for where in ("zone=x", "type"):
        with pytest.raises(CloudError, match="Invalid filter"):
            types(where=where)
