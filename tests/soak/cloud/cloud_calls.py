"""The model's calls, made on the simulated cloud."""

from localsim.rules.model.nodes import NodeSpec, Scheduling
from localsim.rules.model.queued_resources import (
    MultisliceParams,
    QueuedResourceSpec,
    QueueingPolicy,
    RequestedNode,
    Tier,
)

ZONE = "us-west4-a"
PARENT = f"projects/demo/locations/{ZONE}"
NEVER_S = 1e8


def node_name(node_id):
    return f"{PARENT}/nodes/{node_id}"


def request_name(request_id):
    return f"{PARENT}/queuedResources/{request_id}"


def real_create(cloud, node_id, tier, request_id):
    kind, spot = tier
    spec = NodeSpec(kind, "v2-alpha-tpuv5-lite", scheduling=Scheduling(spot=spot))
    return cloud.create_node(PARENT, node_id, spec, request_id)


def real_request(cloud, request_id, node_ids, tier, window, sent):
    (kind, spot), (after_s, until_s) = tier, window
    queueing = None
    if after_s:
        queueing = QueueingPolicy("valid_after_duration", duration_s=after_s)
    if until_s != NEVER_S:
        queueing = QueueingPolicy("valid_until_duration", duration_s=until_s)
    spec = NodeSpec(kind, "v2-alpha-tpuv5-lite")
    wanted = RequestedNode(PARENT, node_ids[0], spec)
    if len(node_ids) > 1:
        wanted = RequestedNode(PARENT, "", spec, MultisliceParams(len(node_ids)))
    spec = QueuedResourceSpec((wanted,), Tier.SPOT if spot else Tier.ON_DEMAND, queueing=queueing)
    return cloud.create_queued_resource(PARENT, request_id, spec, sent)


REAL = {
    "create_node": real_create,
    "delete_node": lambda cloud, name, sent: cloud.delete_node(node_name(name), sent),
    "stop_node": lambda cloud, name: cloud.stop_node(node_name(name)),
    "start_node": lambda cloud, name: cloud.start_node(node_name(name)),
    "update_node": lambda cloud, name, label: cloud.update_node(
        node_name(name), {"labels": {"label": label}}
    ),
    "create_request": real_request,
    "delete_request": lambda cloud, name, how, sent: cloud.delete_queued_resource(
        request_name(name), sent, force=how == "force"
    ),
    "reset_request": lambda cloud, name: cloud.reset_queued_resource(request_name(name)),
    "preempt": lambda cloud, name, notice_s: cloud.preempt(node_name(name), notice_s),
}
WITH_REQUEST_ID = ("create_node", "delete_node", "create_request", "delete_request")
