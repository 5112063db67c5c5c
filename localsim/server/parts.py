"""What a simulated cloud is made of, put in its place before any port is open."""

import socket
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from localsim import accounts, ports
from localsim.clock import Clock
from localsim.cloud.cloud import Cloud
from localsim.cloud.db.timekeeping import last_reading
from localsim.cloud.objects.store import ObjectStore
from localsim.cloud.project.project_metadata import ProjectMetadata
from localsim.cloud.project.secret_versions import SecretVersions
from localsim.cloud.scenario.scenario import Scenario, ScenarioError
from localsim.cloud.scenario.scenario import load as load_scenario
from localsim.ports import LOOPBACK, RefusedToServe
from localsim.server.hosts import Chosen
from localsim.server.settings import Settings
from localsim.services.auth.iam import ACCOUNTS
from localsim.services.auth.worker_tokens import WorkerTokens
from localsim.services.other_apis.neighbour_calls import Project
from localsim.services.ssh.loopback_doors import LoopbackDoors
from localsim.services.ssh.ssh import Door, open_door
from localsim.services.worker.metadata import open_metadata
from localsim.services.worker.tpu_metrics_door import ChipDoors
from localsim.statedir import StateDirectory
from localsim.workers.chip_holders import FILES
from localsim.workers.isolation.vpc import API_ADDRESS
from localsim.workers.slices import OpenDoor, Slices
from localsim.workers.worker import Surroundings, Worker
from localsim.world import World

if TYPE_CHECKING:
    from localsim.server.google import Branch

PROJECT = "local-project"
PROJECT_NUMBER = 424242424242
ZONE = "us-west4-a"
BUCKET = "local-bucket"
BUCKET_PROPERTIES = {"location": "US-WEST4"}
MANUAL_START_S = 1_800_000_000.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What a simulated cloud is made of, before its ports are open."""

    world: World
    objects: ObjectStore
    slices: Slices
    project: Project
    ports: Mapping[str, int]
    hosts: Chosen
    doors: LoopbackDoors | None
    worker_tokens: WorkerTokens
    branch: "Branch | None"
    offline: bool


def scenario(settings: Settings) -> Scenario:
    """What is asked for, `plenty` when nothing is; raises RefusedToServe."""
    try:
        return Scenario() if settings.scenario is None else load_scenario(settings.scenario)
    except ScenarioError as error:
        raise RefusedToServe(str(error), 2) from error


def build(
    settings: Settings,
    rules: Scenario,
    state: StateDirectory,
    connection: sqlite3.Connection,
    hosts: Chosen,
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
    cloud = Cloud(connection, clock, project=PROJECT, project_number=PROJECT_NUMBER, scenario=rules)
    objects = ObjectStore(state.path / "storage", clock, earlier=connection)
    objects.ensure_bucket(PROJECT, BUCKET, BUCKET_PROPERTIES)
    environment = _environment(hosts, chosen)
    tokens = WorkerTokens(roles=lambda: cloud.scenario.worker_roles, named=_named_accounts())
    doors = _loopback_doors(state) if settings.loopback_doors else None
    slices = Slices(
        state.path,
        isolation=hosts.isolation,
        open_door=open_door if doors is None else _also_on_loopback(doors),
        open_metadata=open_metadata,
        open_chips=ChipDoors(FILES[hosts.isolation.mode]).open,
        surroundings=Surroundings(
            now=clock.now,
            tell=lambda *news: world.tell(*news),
            lost=lambda *worker: world.lose(*worker),
            extra_environment=lambda: environment,
            access_token=tokens.issued,
        ),
    )
    metadata = ProjectMetadata(connection)
    world = World(cloud, slices, clock, project_metadata=metadata.items)
    secrets = SecretVersions(connection)
    return Parts(
        world=world,
        objects=objects,
        slices=slices,
        project=Project(PROJECT, PROJECT_NUMBER, metadata, secrets, world, clock.now),
        ports=chosen,
        hosts=hosts,
        doors=doors,
        worker_tokens=tokens,
        branch=branch,
        offline=settings.offline,
    )


def _environment(hosts: Chosen, chosen: Mapping[str, int]) -> dict[str, str]:
    """What programs on workers are told of the simulator."""
    host = LOOPBACK if hosts.vpc is None else API_ADDRESS
    return {
        "STORAGE_EMULATOR_HOST": f"http://{host}:{chosen['storage']}",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"http://{host}:{chosen['tpu_rest']}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": f"http://{host}:{chosen['neighbours']}/",
    }


def _named_accounts() -> dict[str, Sequence[str]]:
    """The accounts that have roles of their own, by their addresses."""
    return {accounts.email(name, PROJECT): roles for name, roles in ACCOUNTS.items()}


def _loopback_doors(state: StateDirectory) -> LoopbackDoors:
    try:
        return LoopbackDoors(state.path)
    except OSError as error:
        raise RefusedToServe(f"--loopback-doors: {error.strerror or error}", 60) from error


def _also_on_loopback(doors: LoopbackDoors) -> OpenDoor:
    async def opening(worker: Worker, listening: socket.socket) -> Door:
        door = await open_door(worker, listening)
        try:
            await doors.open(worker, door)
        except BaseException:
            await door.close()
            raise
        return door

    return opening


def _branch(
    settings: Settings, state: StateDirectory, chosen: Mapping[str, int], clock: Clock
) -> "Branch":
    from localsim.server.google import open_branch  # certificates: nobody else pays for them

    return open_branch(
        state, chosen, project=PROJECT, now=clock.now, time_scale=settings.time_scale
    )
