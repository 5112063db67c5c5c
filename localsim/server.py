"""The composition root: opens the ports, wires the cloud to its workers, prints one line."""

import asyncio
import json
import math
import signal
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localsim import damage, endpoints, ports, statedir
from localsim.clock import Clock
from localsim.cloud.cloud import Cloud
from localsim.cloud.database import open_database
from localsim.cloud.errors import CloudError
from localsim.cloud.objects.store import ObjectStore
from localsim.cloud.project_metadata import ProjectMetadata
from localsim.cloud.scenario import Scenario, ScenarioError
from localsim.cloud.scenario import load as load_scenario
from localsim.cloud.timekeeping import last_reading
from localsim.ports import LOOPBACK, RefusedToServe
from localsim.services import control, neighbours, oauth2, rest, tpu
from localsim.services.guard import guard
from localsim.services.metadata import open_metadata
from localsim.services.neighbour_calls import Project
from localsim.services.socks import serve_socks
from localsim.services.ssh import open_door
from localsim.services.storage import application as storage
from localsim.services.storage.faults import Faults
from localsim.statedir import DirectoryRefused, StateDirectory
from localsim.workers.isolation.process import ProcessIsolation
from localsim.workers.slices import Slices
from localsim.workers.worker import Surroundings
from localsim.world import World

__all__ = ["RefusedToServe", "Settings", "serve"]

if TYPE_CHECKING:
    import ssl

    from localsim.google import Branch

PROJECT = "local-project"
PROJECT_NUMBER = 424242424242
ZONE = "us-west4-a"
BUCKET = "local-bucket"
BUCKET_PROPERTIES = {"location": "US-WEST4"}
PORT_TRIES = 3
"""Free ports can be taken by others before they are opened; then others are chosen."""
MANUAL_START_S = 1_800_000_000.0


@dataclass(frozen=True, slots=True)
class Settings:
    """How one simulated cloud is served."""

    state_dir: Path
    name: str = "local"
    scenario: str | Path | None = None
    """A file, or the name of one that ships with localsim."""
    port: int | None = None
    time_scale: float = 1.0
    manual_clock: bool = False
    tls: bool = False


@dataclass(frozen=True, slots=True)
class Parts:
    """What a simulated cloud is made of, before its ports are open."""

    world: World
    objects: ObjectStore
    slices: Slices
    project: Project
    ports: Mapping[str, int]
    branch: "Branch | None"


async def serve(settings: Settings, *, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the line of endpoints once all is open."""
    _check(settings)
    scenario = _scenario(settings)
    try:
        state = statedir.claim(settings.state_dir.absolute())
    except DirectoryRefused as error:
        raise RefusedToServe(str(error), error.exit_code) from error
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    for tries_left in reversed(range(PORT_TRIES)):
        try:
            await _serve(settings, scenario, state, stopping, announce)
        except ports.PortTakenError:
            if settings.port is not None or not tries_left:
                raise
        else:
            return


async def _serve(
    settings: Settings,
    scenario: Scenario,
    state: StateDirectory,
    stopping: asyncio.Event,
    announce: Callable[[str], None],
) -> None:
    async with AsyncExitStack() as stack:
        with damage.refused(state.path):
            living = await _start(settings, scenario, state, stack, announce)
        await _until_either(stopping, living)


async def _start(
    settings: Settings,
    scenario: Scenario,
    state: StateDirectory,
    stack: AsyncExitStack,
    announce: Callable[[str], None],
) -> asyncio.Task[None]:
    """Everything until the stack closes; what it returns ends when time cannot pass any more."""
    stack.callback((connection := open_database(state.private("state.sqlite"))).close)
    damage.check_kept(state, connection)
    parts = _parts(settings, scenario, state, connection)
    stack.callback(parts.objects.close)
    stack.push_async_callback(parts.slices.close)
    await _open(parts, state, stack)
    living = asyncio.ensure_future(parts.world.live())
    stack.callback(living.cancel)
    line = _line(settings, state, parts)
    stack.callback(state.endpoints.unlink, missing_ok=True)
    state.write("serving.json", {"arguments": _arguments(settings)})
    state.write("endpoints.json", line)
    announce(json.dumps(line))
    return living


def _check(settings: Settings) -> None:
    """Raises RefusedToServe for numbers that no clock and no port can have."""
    scale = settings.time_scale
    if not (math.isfinite(scale) and scale > 0):
        raise RefusedToServe(f"--time-scale must be a positive number, not {scale}", 2)
    if settings.port is not None:
        ports.check_first(settings.port, ports.names(tls=settings.tls))


async def _until_either(stopping: asyncio.Event, living: asyncio.Task[None]) -> None:
    """Return when asked to stop; raise what ended the passing of time, RefusedToServe mostly."""
    asked = asyncio.ensure_future(stopping.wait())
    await asyncio.wait({asked, living}, return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if living.done():
        try:
            living.result()
        except CloudError as error:  # the disk's, or a state that no rule has made
            raise RefusedToServe(error.message, 62) from error


def _scenario(settings: Settings) -> Scenario:
    """What is asked for, `plenty` when nothing is; raises RefusedToServe."""
    try:
        return Scenario() if settings.scenario is None else load_scenario(settings.scenario)
    except ScenarioError as error:
        raise RefusedToServe(str(error), 2) from error


def _parts(
    settings: Settings, scenario: Scenario, state: StateDirectory, connection: sqlite3.Connection
) -> Parts:
    """Everything in its place, as an earlier run left it; raises RefusedToServe."""
    clock = Clock(
        scale=settings.time_scale,
        manual_start_s=MANUAL_START_S if settings.manual_clock else None,
        last=last_reading(connection),
    )
    wanted = ports.names(tls=settings.tls)
    chosen = ports.choose(settings.port, state.remembered_ports(), wanted)
    branch = _branch(settings, state, chosen, clock) if settings.tls else None
    cloud = Cloud(
        connection, clock, project=PROJECT, project_number=PROJECT_NUMBER, scenario=scenario
    )
    objects = ObjectStore(state.path / "storage", clock, earlier=connection)
    objects.ensure_bucket(PROJECT, BUCKET, BUCKET_PROPERTIES)
    storage_url = f"http://{LOOPBACK}:{chosen['storage']}"
    slices = Slices(
        state.path,
        isolation=ProcessIsolation(),
        open_door=open_door,
        open_metadata=open_metadata,
        surroundings=Surroundings(
            now=clock.now,
            tell=lambda *news: world.tell(*news),
            extra_environment=lambda: {"STORAGE_EMULATOR_HOST": storage_url},
        ),
    )
    world = World(cloud, slices, clock)
    metadata = ProjectMetadata(connection)
    project = Project(PROJECT, PROJECT_NUMBER, metadata, world, clock.now)
    return Parts(world, objects, slices, project, chosen, branch)


def _branch(
    settings: Settings, state: StateDirectory, chosen: Mapping[str, int], clock: Clock
) -> "Branch":
    from localsim.google import open_branch  # certificates: nobody else pays for them

    return open_branch(
        state, chosen, project=PROJECT, now=clock.now, time_scale=settings.time_scale
    )


async def _open(parts: Parts, state: StateDirectory, stack: AsyncExitStack) -> None:
    """Open every port, and bring up the workers that should be up."""
    world, chosen, branch = parts.world, parts.ports, parts.branch
    await parts.slices.sweep({node.name for node in world.cloud.nodes_with_disks()})
    hosts = ports.addresses(chosen.values())
    guards: tuple[Any, ...] = (guard(hosts=lambda: hosts),)
    rest_guards, storage_guards, authorize = guards, guards, neighbours.anybody
    granted: Callable[[str], Any] = oauth2.no_accounts
    if branch is not None:
        rest_guards, storage_guards = (*guards, branch.rest()), (*guards, branch.storage())
        authorize, granted = branch.neighbours(), branch.tokens.granted
        await ports.serve_grpc(
            tpu.handlers(world),
            chosen["google_tpu"],
            stack,
            certificate=branch.certificate,
            interceptors=branch.interceptors(),
        )
    served = {
        "tpu_rest": rest.application(world, rest_guards),
        "storage": storage.application(
            parts.objects, storage_guards, Faults(world.cloud.storage_faults, world.clock.pause)
        ),
        "neighbours": neighbours.application(parts.project, granted, guards, authorize),
        "control": control.application(_controls(parts), state.token(), guards),
    }
    await ports.serve_grpc(tpu.handlers(world), chosen["tpu_grpc"], stack)
    for name, app in served.items():
        doors = _doors(name, chosen, branch)
        await ports.serve_http(app, stack, *doors, unpacks=name != "storage")
    vpc = chosen["vpc"]
    socks = await ports.or_refuse(serve_socks(parts.slices.door, port=vpc), vpc)
    stack.push_async_callback(socks.close)
    state.write("ports.json", {**state.remembered_ports(), **chosen})
    await world.reboot()


def _doors(
    name: str, chosen: Mapping[str, int], branch: "Branch | None"
) -> "list[tuple[int, ssl.SSLContext | None]]":
    """The port of a service, and its twin with TLS."""
    doors: list[tuple[int, ssl.SSLContext | None]] = [(chosen[name], None)]
    if branch is not None and name in ports.TWINS:
        doors.append((chosen[ports.TWINS[name]], branch.tls))
    return doors


def _line(settings: Settings, state: StateDirectory, parts: Parts) -> dict[str, Any]:
    identity = {"name": settings.name, "project": PROJECT, "zone": ZONE, "bucket": BUCKET}
    line = endpoints.line(identity, state, parts.ports)
    return line if parts.branch is None else {**line, "google": parts.branch.endpoints(parts.ports)}


def _controls(parts: Parts) -> control.Controls:
    world, objects = parts.world, parts.objects

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
        parts.project.metadata.clear()
        objects.clear()
        objects.ensure_bucket(PROJECT, BUCKET, BUCKET_PROPERTIES)

    def status() -> dict[str, Any]:
        return {**world.cloud.counts(), "objects": objects.count()}

    return control.Controls(preempt, advance, world.clock.now, reset, status, world.run)


def _arguments(settings: Settings) -> list[str]:
    """What fixes the behaviour of this cloud, in the words of the command line."""
    return [
        *(["--scenario", str(settings.scenario)] if settings.scenario else []),
        *(["--port", str(settings.port)] if settings.port else []),
        *(["--time-scale", str(settings.time_scale)] if settings.time_scale != 1 else []),
        *(["--tls"] if settings.tls else []),
    ]
