"""Queued resources as the tests ask for them."""

from localsim.rules.model.nodes import Network, NodeSpec
from localsim.rules.model.queued_resources import (
    MultisliceParams,
    QueuedResourceSpec,
    RequestedNode,
)
from unit.localsim.rules.cloud_rig import ZONE

WITH_EXTERNAL = Network(enable_external_ips=True)


def node(accelerator_type="v5litepod-16", **fields):
    return NodeSpec(accelerator_type, "tpu-ubuntu2204-base", **fields)


def asked(node_id="a", spec=None, slices=None, prefix="", zone=ZONE, **fields):
    """One node of that id, or a multislice of so many."""
    several = None if slices is None else MultisliceParams(slices, prefix)
    wanted = RequestedNode(zone, "" if several else node_id, spec or node(), several)
    return QueuedResourceSpec((wanted,), **fields)


def file(rig, queued_resource_id="q", spec=None, zone=ZONE, request_id=""):
    return rig.cloud.create_queued_resource(
        zone, queued_resource_id, spec or asked(f"{queued_resource_id}-node"), request_id
    )


def state(rig, queued_resource_id="q", zone=ZONE):
    return request(rig, queued_resource_id, zone).state


def request(rig, queued_resource_id="q", zone=ZONE):
    return rig.cloud.get_queued_resource(f"{zone}/queuedResources/{queued_resource_id}")


def states(rig):
    """Of every node, by id."""
    return {each.node_id: each.state.value for each in rig.cloud.list_nodes(ZONE).items}
