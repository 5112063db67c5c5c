"""Records that nobody can read are set aside: the rest is served, and they go with a reset."""

from dataclasses import replace

import pytest

from localsim.rules.model.cloud_errors import CloudError, Code
from localsim.rules.model.nodes import NodeState, Scheduling
from localsim.rules.model.queued_resources import QueuedResourceSpec, RequestedNode, Tier
from unit.localsim.rules.cloud_rig import NODE, REQUEST, SINGLE, SPOT, ZONE

pytest_plugins = ("unit.localsim.rules.cloud_fixtures",)

UNKNOWN = "UPDATE {} SET document = replace(document, 'v5litepod-16', 'v9x-16')"
LARGE = replace(SPOT, scheduling=Scheduling())
TABLES = ("tpu_nodes", "tpu_operations", "tpu_queued_resources")


@pytest.fixture
def crippled(rig):
    """A node `b` that is served, a node `a` and a request of a type that nobody knows any more."""
    wanted = RequestedNode(ZONE, "c", LARGE)
    rig.ready("a", SPOT)
    rig.ready("b", SINGLE)
    rig.cloud.create_queued_resource(ZONE, "q", QueuedResourceSpec((wanted,), Tier.SPOT))
    rig.live(100)
    for table in TABLES:
        rig.connection.execute(UNKNOWN.format(table))
    rig.restart()
    return rig


def test_what_is_unknown_is_named_and_the_rest_is_served(crippled):
    found = {(record.table, record.name): record.cause for record in crippled.cloud.unreadable}
    assert found["tpu_nodes", NODE].startswith("unknown accelerator type 'v9x-16'")
    assert ("tpu_queued_resources", REQUEST) in found
    assert {table for table, _ in found} == set(TABLES)
    assert [node.node_id for node in crippled.cloud.list_nodes(ZONE).items] == ["b"]
    assert crippled.cloud.slices_to_keep() == {NODE, f"{ZONE}/nodes/b", f"{ZONE}/nodes/c"}


def test_what_falls_due_meanwhile_is_done_to_nobody(crippled):
    crippled.cloud.preempt(f"{ZONE}/nodes/b", 0)
    crippled.live(10 * 86400)
    assert crippled.state(f"{ZONE}/nodes/b") == NodeState.PREEMPTED


def test_its_name_is_taken_until_a_reset(crippled):
    for create in (
        lambda: crippled.cloud.create_node(ZONE, "a", SINGLE),
        lambda: crippled.cloud.create_queued_resource(
            ZONE, "q", QueuedResourceSpec((RequestedNode(ZONE, "d", SINGLE),))
        ),
    ):
        with pytest.raises(CloudError) as refusal:
            create()
        assert refusal.value.code == Code.ALREADY_EXISTS
    crippled.cloud.clear()
    crippled.restart()
    assert crippled.cloud.unreadable == ()
    assert crippled.ready("a", SINGLE).state == NodeState.READY


def test_it_is_served_again_when_it_can_be_read(crippled):
    for table in TABLES:
        crippled.connection.execute(
            f"UPDATE {table} SET document = replace(document, 'v9x', 'v5litepod')"
        )
    crippled.restart()
    assert crippled.cloud.unreadable == ()
    assert crippled.state(NODE) == NodeState.READY
