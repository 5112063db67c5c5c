"""A refusal for want of quota says who holds it, and what to delete."""

import pytest

from tpuctl.api.explain import QuotaError
from tpuctl.errors import TransientError
from tpuctl.models.node import ListedNode
from tpuctl.models.queued_resource import QueuedResource
from tpuctl.operations.quota import Wanted, holders_named

WANTED = Wanted("v5litepod-16", "us-west4-a", "spot")
REFUSAL = "create node 'n9': Quota limit 'TPUV5sLitepodPerProjectPerRegion' exceeded. Limit: 48 in"
OF_A_ZONE = REFUSAL.replace("PerRegion", "PerZone")


def node(name, state="READY", accelerator_type="v5litepod-16", zone="us-west4-a", tier="spot"):
    return ListedNode(name, zone, accelerator_type, state, 4, tier, 0)


def request(name, state, zone="us-west4-a", nodes=()):
    return QueuedResource(name, zone, state, "", nodes, "v5litepod-16", "v", "spot", 0)


class Api:
    """The two lists."""

    def __init__(self, nodes=(), requests=()):
        self.nodes, self.requests = list(nodes), list(requests)

    def list_nodes(self):
        return self.nodes, []

    def list_queued_resources(self):
        return self.requests, []


def refused(api, message=REFUSAL, wanted=WANTED):
    with pytest.raises(QuotaError) as caught, holders_named(api, wanted):
        raise QuotaError(message, hint="look")
    return caught.value


def test_the_dead_come_first_and_are_what_to_delete():
    api = Api([node("alive"), node("lost", "PREEMPTED")], [request("old", "SUSPENDED")])
    error = refused(api)
    assert str(error).endswith(
        "(48 of 48 chips in use: node 'lost' (16, PREEMPTED), qr 'old' (16, SUSPENDED), "
        "node 'alive' (16, READY))"
    )
    assert error.hint == "free some: tpuctl node delete lost --zone us-west4-a"


def test_only_what_draws_on_the_same_quota_counts():
    api = Api(
        [
            node("same", zone="us-west4-b"),
            node("elsewhere", zone="us-central1-a"),
            node("other-tier", tier="on-demand"),
            node("other-generation", accelerator_type="v4-8"),
            node("unknown", accelerator_type="v99-1"),
        ],
        [
            request("waits", "WAITING_FOR_RESOURCES"),
            request("has-node", "SUSPENDED", nodes=("same",)),
        ],
    )
    in_region, in_zone = refused(api), refused(api, OF_A_ZONE)
    assert "in use: qr 'has-node' (16, SUSPENDED), node 'same' (16, READY))" in str(in_region)
    assert "in use: qr 'has-node' (16, SUSPENDED))" in str(in_zone)


def test_a_request_whose_node_is_still_there_counts_once():
    api = Api([node("q1", "PREEMPTED")], [request("q1", "SUSPENDED", nodes=("q1",))])
    assert "(16 of 48 chips in use: node 'q1' (16, PREEMPTED))" in str(refused(api))


def test_v5p_counts_in_tensorcores():
    wanted = Wanted("v5p-8", "us-east5-a", "on-demand")
    api = Api([node("p", accelerator_type="v5p-8", zone="us-east5-a", tier="on-demand")])
    assert "(8 of 48 TensorCores in use" in str(refused(api, wanted=wanted))


def test_without_holders_there_is_only_more_quota_to_ask_for():
    error = refused(Api())
    assert str(error) == REFUSAL
    assert error.hint.startswith("ask for more quota")


def test_lists_that_fail_do_not_hide_the_refusal():
    class Down(Api):
        def list_nodes(self):
            raise TransientError("down")

    assert refused(Down()).hint == "look"
