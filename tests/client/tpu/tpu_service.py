"""Cloud TPU on real sockets in a thread, its clock in the test's hand; workers boot at once."""

import asyncio
import gc
import http.client
import json
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import grpc
from aiohttp import web
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport

from localsim import loopback, service_ports
from localsim.clock import Clock
from localsim.rules.cloud import Cloud
from localsim.rules.db.database import open_database
from localsim.rules.model.events import BootSlice, StopSlice
from localsim.rules.scenario.scenario import Scenario
from localsim.services.net.grpc_front import GrpcFront
from localsim.services.rest import rest
from localsim.services.tpu import tpu_grpc
from localsim.worker_facts import HostIdentity

ZONE = "projects/demo/locations/us-west4-a"
START_S = 1_800_000_000.0


class PromptWorld:
    """Answers every event of the cloud at once."""

    def __init__(self, cloud):
        self.cloud = cloud

    async def meet_fault(self, method):
        return self.cloud.meet_fault(method)

    async def run(self, action):
        self.settle()
        try:
            return action(self.cloud)
        finally:
            self.settle()

    def settle(self):
        while events := self.cloud.tick():
            for event in events:
                if isinstance(event, BootSlice) and not event.never_boots:
                    self.cloud.mark_slice_booted(event.node.name, identities(event.node))
                if isinstance(event, StopSlice):
                    self.cloud.mark_slice_stopped(event.node.name)


def identities(node):
    return [
        HostIdentity(f"t1v-n-{node.node_id}-w-{index}", f"ssh-ed25519 KEY{index}")
        for index, _ in enumerate(node.addresses)
    ]


@dataclass
class Service:
    """A served cloud: clients, plain HTTP, and the passing of time."""

    world: PromptWorld
    clock: Clock
    loop: asyncio.AbstractEventLoop
    channel: grpc.Channel
    grpc_port: int
    behind_port: int
    """Where gRPC listens for what guards its port."""
    rest_port: int
    stop: asyncio.Event
    connection: sqlite3.Connection
    directory: Path
    _names: Iterator[int] = field(default_factory=count)

    def client(self) -> tpu_v2.TpuClient:
        return tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=self.channel))

    def advance(self, seconds: float) -> None:
        """Let time pass, and what is due happen."""

        def step():
            self.clock.advance(seconds)
            self.world.settle()

        self._on_loop(step)

    def behave(self, **scenario: object) -> None:
        """Another, empty cloud at the same ports, at the first moment of its time."""

        def change():
            self.connection.close()
            self.connection = open_database(self.directory / f"{next(self._names)}.sqlite")
            self.clock = Clock(manual_start_s=START_S)
            given = Scenario.from_mapping(scenario)
            self.world.cloud = new_cloud(self.connection, self.clock, given)

        self._on_loop(change)

    def fault(self, text: str) -> None:
        """As `tpuctl local fault` adds it."""
        self._on_loop(lambda: self.world.cloud.add_fault(text))

    def preempt(self, name: str) -> None:
        self._on_loop(lambda: self.world.cloud.preempt(name, 0.0))
        self.advance(0.0)

    def send(self, verb: str, path: str, body: object = None) -> tuple[int, dict]:
        """One request over HTTP: status and JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.rest_port, timeout=10)
        try:
            connection.request(verb, path, None if body is None else json.dumps(body))
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())
        finally:
            connection.close()

    def _on_loop(self, action) -> None:
        async def act():
            action()

        asyncio.run_coroutine_threadsafe(act(), self.loop).result(10)


@contextmanager
def serving(path: Path, *, clock: Clock, scenario: Scenario) -> Iterator[Service]:
    """A cloud served from a thread until the block ends."""
    ready: Future[Service] = Future()
    thread = threading.Thread(target=asyncio.run, args=(_serve(path, clock, scenario, ready),))
    thread.start()
    service = ready.result(10)
    try:
        yield service
    finally:
        service.channel.close()
        service.loop.call_soon_threadsafe(service.stop.set)
        thread.join(10)
        gc.collect()  # what was left open is this test's fault, not a later one's


def new_cloud(connection: sqlite3.Connection, clock: Clock, scenario: Scenario) -> Cloud:
    return Cloud(connection, clock, project="demo", project_number=7, scenario=scenario)


async def _serve(path: Path, clock: Clock, scenario: Scenario, ready: Future[Service]) -> None:
    connection = open_database(path)
    world = PromptWorld(new_cloud(connection, clock, scenario))
    listening = loopback.listen()
    grpc_port = listening.getsockname()[1]
    front = GrpcFront((f"127.0.0.1:{grpc_port}", f"localhost:{grpc_port}"))
    stack = AsyncExitStack()
    handlers = tpu_grpc.handlers(world, front.admits)
    front.server_port = await service_ports.start_grpc(handlers, stack)
    front.open(listening)
    runner = web.AppRunner(rest.application(world), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    (_, rest_port) = runner.addresses[0]
    channel = grpc.insecure_channel(f"127.0.0.1:{grpc_port}")
    loop = asyncio.get_running_loop()
    service = Service(
        world,
        clock,
        loop,
        channel,
        grpc_port,
        front.server_port,
        rest_port,
        asyncio.Event(),
        connection,
        path.parent,
    )
    living = asyncio.ensure_future(_live(world, clock))
    ready.set_result(service)
    await service.stop.wait()
    living.cancel()
    await runner.cleanup()
    await stack.aclose()
    await front.close()
    service.connection.close()
    await asyncio.sleep(0)  # the turn in which the connections' sockets are closed


async def _live(world: PromptWorld, clock: Clock) -> None:
    """Time passes without requests too; a clock that stands still is advanced by the test."""
    while not clock.is_manual:
        await asyncio.sleep(0.02)
        world.settle()
