"""The figures of the emulated Cloud TPU API: `pytest -m benchmark -s tests/benchmarks`."""

import asyncio
import io
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from google.cloud import tpu_v2

from benchmarks.measure import ROUNDS, keep, resident
from tpuctl.api.tpu import decode
from tpuctl.cli.node.details import NODES
from tpuctl.cli.shell.options import Shared
from tpuctl.cli.shell.output import Output
from tpuctl.operations.slices.flex_start import with_flex_start

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

BARE = Path(__file__).with_name("bare_grpc.py")
ZONE = "projects/local-project/locations/us-west4-a"
SERVICE = "/google.cloud.tpu.v2.Tpu"
NO_WORKERS = "workers: none\nprovisioning_delay_s: 0\n"
NEVER_READY = "workers: none\nprovisioning_delay_s: 1000000\n"
CLIENTS = 16
CREATES = 1600


@contextmanager
def localsim(state_dir, scenario):
    """A server process: itself and the address of its gRPC port."""
    path = state_dir.with_suffix(".yaml")
    path.write_text(scenario)
    argv = ["-P", "-m", "localsim", "serve", "--state-dir", str(state_dir), "--scenario", str(path)]
    with running(argv) as (process, line):
        yield process, json.loads(line)["tpu_grpc"]


@contextmanager
def bare(reply_file):
    with running([str(BARE), str(reply_file)]) as (_, line):
        yield line.strip()


@contextmanager
def running(argv):
    with subprocess.Popen([sys.executable, *argv], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stdout.readline()
        finally:
            process.kill()


def create_body(number):
    node = tpu_v2.Node.pb()(accelerator_type="v5litepod-1", runtime_version="v2-alpha-tpuv5-lite")
    request = tpu_v2.CreateNodeRequest.pb()(parent=ZONE, node_id=f"n{number:05}", node=node)
    return request.SerializeToString()


def list_body():
    return tpu_v2.ListNodesRequest.pb()(parent=ZONE).SerializeToString()


def p50_s(call, bodies):
    times = []
    for body in bodies:
        began = time.perf_counter()
        call(body)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


async def create_at_once(address, numbers):
    """Seconds that so many clients, each on a channel of its own, take for all the creations."""
    options = (("grpc.use_local_subchannel_pool", 1),)
    channels = [grpc.aio.insecure_channel(address, options=options) for _ in range(CLIENTS)]
    bodies = iter([create_body(number) for number in numbers])

    async def client(create):
        for body in bodies:
            await create(body)

    calls = [channel.unary_unary(f"{SERVICE}/CreateNode") for channel in channels]
    await asyncio.gather(*(channel.channel_ready() for channel in channels))
    began = time.perf_counter()
    await asyncio.gather(*map(client, calls))
    took_s = time.perf_counter() - began
    for channel in channels:
        await channel.close()
    return took_s


def fdatasync_p50_s(directory, count=100):
    """One appended and synchronised 8 KiB on the disk that holds the state."""
    path = directory / "fdatasync"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def append(block):
        os.write(descriptor, block)
        os.fdatasync(descriptor)

    try:
        return p50_s(append, [bytes(8192)] * count)
    finally:
        os.close(descriptor)
        path.unlink()


@pytest.mark.parametrize(("count", "target_ms"), [(1, 0.7), (1000, 2.0)])
def test_list_nodes(count, target_ms, tmp_path):
    reply_file = tmp_path / "reply"
    with localsim(tmp_path / "state", NO_WORKERS) as (_, address):
        asyncio.run(create_at_once(address, range(count)))
        with grpc.insecure_channel(address) as channel:
            listing = channel.unary_unary(f"{SERVICE}/ListNodes")
            reply_file.write_bytes(listing(list_body()))
            with bare(reply_file) as limit, grpc.insecure_channel(limit) as other:
                limit_listing = other.unary_unary(f"{SERVICE}/ListNodes")
                ours_s, peer_s = [], []
                for _ in range(ROUNDS):
                    ours_s.append(p50_s(listing, [list_body()] * 200))
                    peer_s.append(p50_s(limit_listing, [list_body()] * 200))
    keep(
        f"ListNodes p50 over gRPC, {count} nodes",
        f"at most {target_ms} ms; beside a server that has the bytes ready",
        ours_s=ours_s,
        peer_s=peer_s,
        ratio=round(statistics.median(ours_s) / statistics.median(peer_s), 2),
    )


def test_create_node_by_one_client(tmp_path):
    ours_s, disk_s = [], []
    with (
        localsim(tmp_path / "state", NEVER_READY) as (_, address),
        grpc.insecure_channel(address) as channel,
    ):
        create = channel.unary_unary(f"{SERVICE}/CreateNode")
        for number in range(ROUNDS):
            bodies = [create_body(100 * number + each) for each in range(100)]
            ours_s.append(p50_s(create, bodies))
            disk_s.append(fdatasync_p50_s(tmp_path))
    keep(
        "CreateNode p50, one client, durable",
        "at most 3 ms; beside fdatasync of 8 KiB",
        ours_s=ours_s,
        disk_s=disk_s,
        ratio=round(statistics.median(ours_s) / statistics.median(disk_s), 2),
    )


def test_create_node_by_16_clients(tmp_path):
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    ours_per_s, peer_per_s, disk_s = [], [], []
    with bare(empty) as limit:
        for number in range(ROUNDS):
            with localsim(tmp_path / f"state{number}", NEVER_READY) as (_, address):
                ours_per_s.append(CREATES / asyncio.run(create_at_once(address, range(CREATES))))
            peer_per_s.append(CREATES / asyncio.run(create_at_once(limit, range(CREATES))))
            disk_s.append(fdatasync_p50_s(tmp_path))
    keep(
        "CreateNode per second, 16 clients, durable",
        "at least 1,000; beside a server that does nothing",
        ours_per_s=ours_per_s,
        peer_per_s=peer_per_s,
        disk_s=disk_s,
        ratio=round(statistics.median(ours_per_s) / statistics.median(peer_per_s), 2),
    )


def test_restart_with_1000_nodes(tmp_path):
    state_dir = tmp_path / "state"
    with localsim(state_dir, NO_WORKERS) as (_, address):
        asyncio.run(create_at_once(address, range(1000)))
        time.sleep(1)  # every node is READY
    ready_s, resident_mib = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        with localsim(state_dir, NO_WORKERS) as (process, _):
            ready_s.append(time.perf_counter() - began)
            time.sleep(0.5)
            resident_mib.append(resident(process.pid))
    keep("localsim restart with 1000 nodes", "at most 1.5 s", ours_s=ready_s)
    keep("localsim resident with 1000 nodes", "at most 120 MiB", ours_mib=resident_mib)


def test_rows_of_1000_nodes(tmp_path):
    with localsim(tmp_path / "state", NO_WORKERS) as (_, address):
        asyncio.run(create_at_once(address, range(1000)))
        with grpc.insecure_channel(address) as channel:
            reply = channel.unary_unary(f"{SERVICE}/ListNodes")(list_body())
    ours_s, peer_s = [], []
    for _ in range(ROUNDS):
        ours_s.append(p50_s(our_rows, [reply] * 20))
        peer_s.append(p50_s(proto_plus_rows, [reply] * 20))
    keep(
        "rows of 1000 listed nodes, client time",
        "at most 6 ms; beside proto-plus",
        ours_s=ours_s,
        peer_s=peer_s,
        ratio=round(statistics.median(ours_s) / statistics.median(peer_s), 3),
    )


def our_rows(reply):
    """What `tpuctl node list` makes of the reply, to the last printed row."""
    page = tpu_v2.ListNodesResponse.pb().FromString(reply)
    nodes = with_flex_start(None, list(decode.listed_nodes(page.nodes)))
    printed = io.StringIO()
    output = Output(Shared(), printed, io.StringIO(), time.time)
    output.items(sorted(nodes, key=lambda node: (node.zone, node.name)), NODES)
    assert printed.getvalue().count("\n") >= len(nodes)


def proto_plus_rows(reply):
    """The same fields as Google's client gives them."""
    return [
        (
            *node.name.split("/")[3::2],
            node.accelerator_type,
            node.state.name,
            len(node.network_endpoints),
            node.scheduling_config.spot,
            node.scheduling_config.preemptible,
            node.scheduling_config.reserved,
            node.create_time.timestamp(),
            node.queued_resource,
        )
        for node in tpu_v2.ListNodesResponse.deserialize(reply).nodes
    ]
