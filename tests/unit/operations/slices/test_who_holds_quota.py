"""A refusal for want of quota says who holds it, and what to delete."""

import re
from dataclasses import replace

import pytest

from tpuctl.api.tpu.explain import QuotaError
from tpuctl.errors import TransientError
from tpuctl.models.node import ListedNode
from tpuctl.models.queued_resource import QueuedResource
from tpuctl.models.quota_holders import QuotaDemand
from tpuctl.operations.slices.quota_advice import name_holders

WANTED = QuotaDemand("v5litepod-16", "us-west4-a", "spot")
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
    with pytest.raises(QuotaError) as caught, name_holders(api, wanted):
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


def test_a_multislice_holds_what_its_missing_nodes_held():
    api = Api([node("m-0", "PREEMPTED")], [request("m", "SUSPENDED", nodes=("m-0", "m-1", "m-2"))])
    assert "(48 of 48 chips in use: qr 'm' (32, SUSPENDED), node 'm-0' (16" in str(refused(api))


def test_a_region_is_no_prefix_of_another():
    api = Api([node("far", zone="europe-west10-a"), node("near", zone="europe-west1-b")])
    error = refused(api, wanted=QuotaDemand("v5litepod-16", "europe-west1-c", "spot"))
    assert "in use: node 'near' (16, READY))" in str(error)


@pytest.mark.parametrize(
    ("wanted", "held"),
    [
        (QuotaDemand("v5litepod-64", "us-west4-a", "best-effort"), "a spot"),
        (QuotaDemand("v5litepod-16", "us-west4-a", "on-demand"), "on demand"),
        (QuotaDemand("v5litepod-4", "us-west4-a", "on-demand"), "serving"),
    ],
)
def test_every_pool_has_its_own_holders(wanted, held):
    api = Api(
        [
            node("a spot"),
            node("on demand", tier="on-demand"),
            node("reserved", tier="reserved"),
            node("serving", accelerator_type="v5litepod-8", tier="on-demand"),
        ]
    )
    assert re.findall(r"node '([^']+)' \(", str(refused(api, wanted=wanted))) == [held]


def test_a_type_that_the_catalog_does_not_know_leaves_the_refusal_as_it_is():
    assert (
        str(refused(Api([node("n")]), wanted=QuotaDemand("v99-1", "us-west4-a", "spot"))) == REFUSAL
    )


def test_v5p_counts_in_tensorcores():
    wanted = QuotaDemand("v5p-8", "us-east5-a", "on-demand")
    api = Api([node("p", accelerator_type="v5p-8", zone="us-east5-a", tier="on-demand")])
    assert "(8 of 48 TensorCores in use" in str(refused(api, wanted=wanted))


def test_a_request_that_failed_for_want_of_quota_holds_none():
    failure = "Quota limit 'IN_USE_ADDRESSES' has been exceeded. Limit: 8 in region us-west4."
    api = Api([node("alive")], [replace(request("refused", "FAILED"), failure=failure)])
    assert str(refused(api)).endswith("(16 of 48 chips in use: node 'alive' (16, READY))")


def test_without_holders_there_is_only_more_quota_to_ask_for():
    error = refused(Api())
    assert str(error) == REFUSAL
    assert error.hint.startswith("ask for more quota")


def test_lists_that_fail_do_not_hide_the_refusal():
    class Down(Api):
        def list_nodes(self):
            raise TransientError("down")

    assert refused(Down()).hint == "look"
