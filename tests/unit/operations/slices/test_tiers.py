"""A price is never that of another tier: where it cannot be known there is none."""

import pytest

from tpuctl.errors import TransientError
from tpuctl.models.node import ListedNode
from tpuctl.operations.slices.cost import usd_per_hour
from tpuctl.operations.slices.flex_start import with_flex_start

ZONE = "us-west4-a"


def node(name, owner=None, tier="on-demand"):
    return ListedNode(name, ZONE, "v5litepod-16", "READY", 4, tier, 0, owner)


class Api:
    """Knows which requests are flex-start, or does not."""

    def __init__(self, answer):
        self.answer = answer

    def flex_starts(self, zone):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


NODES = [node("own"), node("flex", "q1"), node("plain", "q2"), node("spot", "q3", "spot")]


def tiers(answer):
    return [each.provisioning for each in with_flex_start(Api(answer), NODES)]


def test_a_node_is_what_its_request_asked_for():
    assert tiers({(ZONE, "q1")}) == ["on-demand", "flex-start", "on-demand", "spot"]


@pytest.mark.parametrize("answer", [None, TransientError("down")])
def test_what_cannot_be_found_out_is_unknown_and_has_no_price(answer):
    assert tiers(answer) == ["on-demand", "unknown", "unknown", "spot"]
    assert usd_per_hour("v5litepod-16", ZONE, "unknown") is None


def test_nothing_is_asked_where_nothing_is_in_doubt():
    nodes = [NODES[0], NODES[3]]
    assert with_flex_start(Api(AssertionError("asked")), nodes) == nodes
