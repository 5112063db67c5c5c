"""libtpu's metric service is there while a program holds the chips, and says what it tells."""

import asyncio
import contextlib
import json
import socket
from contextlib import asynccontextmanager
from dataclasses import replace

import grpc
import pytest

from client.workers.worker_fixtures import ONE, run, until, vpc
from localsim.services.worker.tpu_metrics import MESSAGES, METRICS, SERVICE, MetricServer

USED = "tpu.runtime.hbm.memory.usage.bytes"
TOTAL = "tpu.runtime.hbm.memory.total.bytes"
DUTY = "tpu.runtime.tensorcore.dutycycle.percent"
GIB = 2**30


class Program:
    """Speaks to the simulator as a program that has the lock does."""

    def __init__(self, streams):
        self.reader, self.writer = streams

    async def ask(self, words):
        await self.tell(words)
        return json.loads(await self.reader.readline())

    async def tell(self, words):
        self.writer.write(json.dumps(words).encode() + b"\n")
        await self.writer.drain()


@asynccontextmanager
async def program(here):
    """A program on the worker's door, greeted."""
    async with here.ssh() as worker:
        address = (await worker.run("echo -n $LOCALSIM_CHIPS")).stdout
    host, _, port = address.rpartition(":")
    streams = await asyncio.open_connection(host, int(port))
    try:
        greeting = json.loads(await streams[0].readline())
        assert greeting["lock"].endswith("/libtpu_lockfile")
        yield Program(streams)
    finally:
        streams[1].close()
        with contextlib.suppress(ConnectionError):
            await streams[1].wait_closed()


async def call(port, method, request, answer, **fields):
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        calling = channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=MESSAGES[request].SerializeToString,
            response_deserializer=MESSAGES[answer].FromString,
        )
        return await calling(MESSAGES[request](**fields), timeout=10)


async def points(port, name):
    """The values of a metric, in the order of the devices."""
    response = await call(
        port, "GetRuntimeMetric", "MetricRequest", "MetricResponse", metric_name=name
    )
    found = sorted(response.metric.metrics, key=lambda each: each.attribute.value.int_attr)
    kinds = [
        each.gauge.WhichOneof("_as_int") or each.gauge.WhichOneof("_as_double") for each in found
    ]
    return [getattr(each.gauge, kind) for each, kind in zip(found, kinds, strict=True)]


async def values(port, name, expected):
    """Wait for what a program has told to be served."""
    async with asyncio.timeout(5):
        while (found := await points(port, name)) != expected:
            await asyncio.sleep(0.01)
    return found


def test_metrics_are_served_while_a_program_holds_the_chips_and_only_then(tmp_path):
    async def test():
        async with vpc(tmp_path, ONE) as here:
            async with program(here) as holder:
                port = (await holder.ask({"hold": 7}))["metrics"]
                assert await points(port, TOTAL) == [15.75 * GIB] * 4
                assert await points(port, USED) == [0] * 4
                await holder.tell({"bytes": [1, 2, 3, 4], "busy": 0.5})
                assert await values(port, USED, [1, 2, 3, 4])
                assert await points(port, DUTY) == [50.0] * 4
            await until(lambda: not is_open(port))

    run(test)


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(("kind", "duty_points"), [("v3-8", 4), ("v2-8", 4)])
def test_where_a_chip_is_two_devices_memory_is_per_device_and_duty_per_chip(
    tmp_path, kind, duty_points
):
    async def test():
        async with vpc(tmp_path, replace(ONE, accelerator_type=kind)) as here, program(here) as two:
            port = (await two.ask({"hold": 7}))["metrics"]
            await two.tell({"bytes": [20, 40, 60, 80], "busy": 1})
            assert await values(port, USED, [10, 10, 20, 20, 30, 30, 40, 40])
            assert await points(port, DUTY) == [100.0] * duty_points

    run(test)


def test_supported_metrics_are_listed_by_a_bounded_pattern(tmp_path):
    async def names(port, pattern):
        listed = await call(
            port,
            "ListSupportedMetrics",
            "ListSupportedMetricsRequest",
            "ListSupportedMetricsResponse",
            filter=pattern,
        )
        return [each.metric_name for each in listed.supported_metric]

    async def test():
        async with vpc(tmp_path, ONE) as here, program(here) as holder:
            port = (await holder.ask({"hold": 7}))["metrics"]
            assert await names(port, "") == list(METRICS)
            assert await names(port, r"hbm\..*usage") == [USED]
            for pattern in ("(a*)*b", "[", "x" * 300, ".*.*.*.*.*z"):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await names(port, pattern)
                assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            with pytest.raises(grpc.aio.AioRpcError) as absent:
                await points(port, "megascale.nothing")
            assert absent.value.code() is grpc.StatusCode.NOT_FOUND

    run(test)


@pytest.mark.parametrize(
    "nonsense",
    [b"\n", b"{}\n", b'{"hold": "me"}\n', b"\xff\xfe\n", b"x" * 100_000, b"[" * 50_000 + b"\n"],
)
def test_nonsense_at_the_door_ends_that_connection_and_holds_nothing(tmp_path, nonsense):
    async def test():
        async with vpc(tmp_path, ONE) as here, program(here) as holder, program(here) as stranger:
            port = (await holder.ask({"hold": 7}))["metrics"]
            stranger.writer.write(nonsense)
            with contextlib.suppress(ConnectionError):
                assert await stranger.reader.read() == b""
            assert await points(port, USED) == [0] * 4

    run(test)


def test_usage_that_makes_no_sense_ends_the_holding(tmp_path):
    async def test():
        async with vpc(tmp_path, ONE) as here, program(here) as holder:
            port = (await holder.ask({"hold": 7}))["metrics"]
            await holder.tell({"bytes": [-1], "busy": 2})
            await until(lambda: not is_open(port))

    run(test)


def test_the_runtime_s_status_lists_every_tensorcore(tmp_path):
    async def test():
        v4 = replace(ONE, accelerator_type="v4-8")
        async with vpc(tmp_path, v4) as here, program(here) as holder:
            port = (await holder.ask({"hold": 7}))["metrics"]
            names = (
                "GetTpuRuntimeStatus",
                "GetTpuRuntimeStatusRequest",
                "GetTpuRuntimeStatusResponse",
            )
            status = await call(port, *names)
            assert status.host_name == here.identities["10.128.0.2"].hostname
            cores = [each.value.core_id for each in status.core_states]
            assert [(core.chip_id, core.core_on_chip.index) for core in cores] == [
                (chip, core) for chip in range(4) for core in range(2)
            ]

    run(test)


def test_who_comes_from_no_worker_is_told_nothing():
    async def test():
        server = MetricServer()
        await server.begin()
        try:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await points(server.port, TOTAL)
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        finally:
            await server.end()

    run(test)
