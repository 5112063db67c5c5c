"""Hundreds of nodes and queued resources in one project, made and read by 50 clients at once."""

import asyncio
import json
import signal
import subprocess
import sys
import time

import grpc
import pytest
from clouds import MATRIX
from google.cloud import tpu_v2

ZONE = "projects/local-project/locations/us-west4-a"
CLIENTS = 50
NODES_AND_REQUESTS = ((300, 40), pytest.param(1000, 200, marks=MATRIX))
SCENARIO = """
workers: none
acceptance_delay_s: 0.01
provisioning_delay_s: 0.01
"""


@pytest.fixture
def address(tmp_path):
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SCENARIO)
    argv = ["--state-dir", str(tmp_path / "state"), "--scenario", str(scenario)]
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "localsim", "serve", *argv], stdout=subprocess.PIPE, text=True
    ) as process:
        yield json.loads(process.stdout.readline())["tpu_grpc"]
        process.send_signal(signal.SIGTERM)


def node():
    return tpu_v2.Node(accelerator_type="v5litepod-1", runtime_version="v2-alpha-tpuv5-lite")


def create_node(number):
    return "CreateNode", tpu_v2.CreateNodeRequest(parent=ZONE, node_id=f"n{number}", node=node())


def create_request(number):
    spec = tpu_v2.QueuedResource.Tpu.NodeSpec(parent=ZONE, node_id=f"q{number}-node", node=node())
    return "CreateQueuedResource", tpu_v2.CreateQueuedResourceRequest(
        parent=ZONE,
        queued_resource_id=f"q{number}",
        queued_resource=tpu_v2.QueuedResource(tpu={"node_spec": [spec]}),
    )


async def call(channel, method, request):
    send = channel.unary_unary(f"/google.cloud.tpu.v2.Tpu/{method}")
    return await send(type(request).serialize(request), timeout=60)


async def everything(address, node_count, request_count):
    """What there is once the clients have made it: nodes and requests."""
    work = [create_node(number) for number in range(node_count)]
    work += [create_request(number) for number in range(request_count)]
    todo = iter(work)
    options = (("grpc.use_local_subchannel_pool", 1),)
    channels = [grpc.aio.insecure_channel(address, options=options) for _ in range(CLIENTS)]

    async def client(channel):
        for number, (method, request) in enumerate(todo):
            await call(channel, method, request)
            if number % 100 == 0:
                await call(channel, "ListNodes", tpu_v2.ListNodesRequest(parent=ZONE))

    await asyncio.gather(*map(client, channels))
    found = await settled(channels[0], node_count + request_count)
    for channel in channels:
        await channel.close()
    return found


async def settled(channel, node_count):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        nodes = await listed(channel, "ListNodes", tpu_v2.ListNodesRequest, "nodes")
        requests = await listed(
            channel,
            "ListQueuedResources",
            tpu_v2.ListQueuedResourcesRequest,
            "queued_resources",
        )
        waiting = [each for each in nodes if each.state != tpu_v2.Node.State.READY]
        if len(nodes) == node_count and not waiting:
            break
        await asyncio.sleep(0.05)
    return nodes, requests


async def listed(channel, method, kind, field):
    answer = getattr(tpu_v2, f"{method}Response")
    found, token = [], ""
    while True:
        reply = await call(channel, method, kind(parent=ZONE, page_token=token))
        page = answer.deserialize(reply)
        found.extend(getattr(page, field))
        token = page.next_page_token
        if not token:
            return found


@pytest.mark.parametrize(("node_count", "request_count"), NODES_AND_REQUESTS)
def test_many_resources_and_clients(address, node_count, request_count):
    nodes, requests = asyncio.run(everything(address, node_count, request_count))
    assert {each.state for each in nodes} == {tpu_v2.Node.State.READY}
    names = {each.name for each in nodes}
    assert names == {f"{ZONE}/nodes/n{n}" for n in range(node_count)} | {
        f"{ZONE}/nodes/q{n}-node" for n in range(request_count)
    }
    addresses = [end.ip_address for each in nodes for end in each.network_endpoints]
    assert len(addresses) == len(nodes)
    assert len(set(addresses)) == len({each.id for each in nodes}) == node_count + request_count
    assert {each.state.state.name for each in requests} == {"ACTIVE"}
    assert len(requests) == request_count
