"""The composition root: opens the ports, wires the cloud to its workers, prints one line."""

import asyncio
import json
import math
import os
import signal
import socket
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import yaml
from aiohttp import web

from localsim import statedir
from localsim.clock import Clock
from localsim.cloud.cloud import Cloud
from localsim.cloud.database import NewerSchemaError, open_database
from localsim.cloud.objects import ObjectStore
from localsim.cloud.objects_model import StorageError
from localsim.cloud.scenario import Scenario
from localsim.services import control, rest, storage, tpu
from localsim.services.guard import guard
from localsim.services.metadata import open_metadata
from localsim.services.socks import serve_socks
from localsim.services.ssh import open_door
from localsim.statedir import DirectoryRefused, StateDirectory
from localsim.workers.isolation.process import ProcessIsolation
from localsim.workers.slices import Slices
from localsim.world import World

LOOPBACK = "127.0.0.1"
PROJECT = "local-project"
PROJECT_NUMBER = 424242424242
ZONE = "us-west4-a"
BUCKET = "local-bucket"
PORTS = ("tpu_grpc", "tpu_rest", "storage", "vpc", "control")
LAST_FIRST_PORT = 65536 - len(PORTS)
MANUAL_START_S = 1_800_000_000.0
GRPC_OPTIONS = (("grpc.so_reuseport", 0),)
"""Without this a second server could share a port unnoticed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How one simulated cloud is served."""

    state_dir: Path
    name: str = "local"
    scenario: Path | None = None
    port: int | None = None
    time_scale: float = 1.0
    manual_clock: bool = False


class RefusedToServe(Exception):
    """Why there is no server; `exit_code` in tpuctl's own numbers."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


async def serve(settings: Settings, *, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the line of endpoints once all is open."""
    _check(settings)
    scenario = load_scenario(settings.scenario)
    try:
        state = statedir.claim(settings.state_dir.absolute())
        connection = open_database(state.path / "state.sqlite")
    except DirectoryRefused as error:
        raise RefusedToServe(str(error), error.exit_code) from error
    except (NewerSchemaError, sqlite3.DatabaseError) as error:
        raise RefusedToServe(f"cannot open the state: {error}", 62) from error
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as stack:
        stack.callback(connection.close)
        world, endpoints = await _open(settings, scenario, state, connection, stack)
        living = asyncio.ensure_future(world.live())
        stack.callback(living.cancel)
        line = json.dumps(endpoints)
        stack.callback(state.endpoints.unlink, missing_ok=True)
        state.write("serving.json", {"arguments": _arguments(settings)})
        state.write("endpoints.json", endpoints)
        announce(line)
        await _until_either(stopping, living)


def _check(settings: Settings) -> None:
    """Raises RefusedToServe for numbers that no clock and no port can have."""
    scale, first = settings.time_scale, settings.port
    if not (math.isfinite(scale) and scale > 0):
        raise RefusedToServe(f"--time-scale must be a positive number, not {scale}", 2)
    if first is not None and not 1 <= first <= LAST_FIRST_PORT:
        raise RefusedToServe(f"--port must be from 1 to {LAST_FIRST_PORT}, not {first}", 2)


async def _until_either(stopping: asyncio.Event, living: asyncio.Task[None]) -> None:
    """Return when asked to stop; raise what ended the passing of time."""
    asked = asyncio.ensure_future(stopping.wait())
    await asyncio.wait({asked, living}, return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if living.done():
        living.result()


def load_scenario(path: Path | None) -> Scenario:
    """The scenario in a YAML file, `plenty` without one; raises RefusedToServe."""
    if path is None:
        return Scenario()
    try:
        return Scenario.from_mapping(yaml.safe_load(path.read_text("utf-8")) or {})
    except OSError as error:
        raise RefusedToServe(f"cannot read {path}: {error.strerror}", 2) from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, TypeError) as error:
        raise RefusedToServe(f"{path}: {str(error).splitlines()[0]}", 2) from error


async def _open(
    settings: Settings,
    scenario: Scenario,
    state: StateDirectory,
    connection: sqlite3.Connection,
    stack: AsyncExitStack,
) -> tuple[World, dict[str, Any]]:
    clock = Clock(
        scale=settings.time_scale,
        manual_start_s=MANUAL_START_S if settings.manual_clock else None,
    )
    ports = _choose_ports(settings.port, state.remembered_ports())
    storage_url = f"http://{LOOPBACK}:{ports['storage']}"
    cloud = Cloud(
        connection,
        clock,
        project=PROJECT,
        project_number=PROJECT_NUMBER,
        scenario=scenario,
    )
    objects = ObjectStore(connection, state.path / "storage", clock)
    _ensure_bucket(objects)
    slices = Slices(
        state.path,
        isolation=ProcessIsolation(),
        open_door=open_door,
        open_metadata=open_metadata,
        extra_environment=lambda: {"STORAGE_EMULATOR_HOST": storage_url},
    )
    stack.push_async_callback(slices.close)
    world = World(cloud, slices, clock)
    await slices.sweep({node.name for node in cloud.nodes_with_disks()})
    hosts = frozenset(
        f"{host}:{port}" for host in (LOOPBACK, "localhost") for port in ports.values()
    )
    guards = (guard(hosts=lambda: hosts),)
    controls = _controls(world, objects)
    await _serve_grpc(world, ports["tpu_grpc"], stack)
    await _serve_http(rest.application(world, guards), ports["tpu_rest"], stack)
    await _serve_http(storage.application(objects, guards), ports["storage"], stack)
    await _serve_http(control.application(controls, state.token(), guards), ports["control"], stack)
    await _serve_vpc(slices, ports["vpc"], stack)
    state.write("ports.json", ports)
    await world.reboot()
    return world, _endpoints(settings, state, ports)


def _endpoints(
    settings: Settings, state: StateDirectory, ports: Mapping[str, int]
) -> dict[str, Any]:
    return {
        "name": settings.name,
        "pid": os.getpid(),
        "state_dir": str(state.path),
        "project": PROJECT,
        "zone": ZONE,
        "bucket": BUCKET,
        "mode": "process",
        "tpu_grpc": f"{LOOPBACK}:{ports['tpu_grpc']}",
        "tpu_rest": f"http://{LOOPBACK}:{ports['tpu_rest']}",
        "storage": f"http://{LOOPBACK}:{ports['storage']}",
        "vpc": f"socks5://{LOOPBACK}:{ports['vpc']}",
        "control": f"http://{LOOPBACK}:{ports['control']}",
    }


def _controls(world: World, objects: ObjectStore) -> control.Controls:
    async def preempt(node: str, zone: str, notice_s: float | None) -> None:
        name = f"projects/{PROJECT}/locations/{zone}/nodes/{node}"
        await world.run(lambda cloud: cloud.preempt(name, notice_s))
        await world.settle()

    async def advance(seconds: float) -> float:
        world.clock.advance(seconds)
        await world.settle()
        return world.clock.now()

    async def reset() -> None:
        await world.reset()
        objects.clear()
        _ensure_bucket(objects)

    def status() -> dict[str, Any]:
        return {**world.cloud.counts(), "objects": objects.count()}

    return control.Controls(preempt, advance, world.clock.now, reset, status)


async def _serve_grpc(world: World, port: int, stack: AsyncExitStack) -> None:
    server = grpc.aio.server(options=GRPC_OPTIONS)
    server.add_generic_rpc_handlers(tpu.handlers(world))
    try:
        server.add_insecure_port(f"{LOOPBACK}:{port}")
    except RuntimeError as error:
        raise RefusedToServe(f"port {port} is in use", 60) from error
    await server.start()
    stack.push_async_callback(server.stop, None)


async def _serve_http(app: web.Application, port: int, stack: AsyncExitStack) -> None:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await _or_refuse(web.TCPSite(runner, LOOPBACK, port).start(), port)


async def _serve_vpc(slices: Slices, port: int, stack: AsyncExitStack) -> None:
    server = await _or_refuse(serve_socks(slices.door, port=port), port)
    stack.push_async_callback(server.close)


async def _or_refuse(opening: Awaitable[Any], port: int) -> Any:
    try:
        return await opening
    except OSError as error:
        raise RefusedToServe(f"port {port} is in use", 60) from error


def _choose_ports(first: int | None, remembered: Mapping[str, int]) -> dict[str, int]:
    """Fixed ports when asked for; else those of the last run, as far as they are free."""
    if first is not None:
        wanted = {name: first + index for index, name in enumerate(PORTS)}
        for port in wanted.values():
            if _free_port(port) != port:
                raise RefusedToServe(f"port {port} is in use or not allowed", 60)
        return wanted
    return {name: _free_port(remembered.get(name, 0)) for name in PORTS}


def _free_port(wanted: int) -> int:
    """The wanted port, or another when it is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, wanted))
        except (OSError, OverflowError):
            probe.bind((LOOPBACK, 0))
        found: int = probe.getsockname()[1]
    return found


def _ensure_bucket(objects: ObjectStore) -> None:
    try:
        objects.buckets.get(BUCKET)
    except StorageError:
        objects.buckets.create(PROJECT, BUCKET, {"location": "US-WEST4"})


def _arguments(settings: Settings) -> list[str]:
    """What fixes the behaviour of this cloud, in the words of the command line."""
    return [
        *(["--scenario", str(settings.scenario)] if settings.scenario else []),
        *(["--port", str(settings.port)] if settings.port else []),
        *(["--time-scale", str(settings.time_scale)] if settings.time_scale != 1 else []),
    ]
