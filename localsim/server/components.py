"""The parts of a simulated cloud, built before any port is open."""

import socket
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from localsim import accounts
from localsim import service_ports as ports
from localsim.clock import Clock
from localsim.loopback import LOOPBACK
from localsim.orchestrator import Orchestrator
from localsim.rules.cloud import Cloud
from localsim.rules.db.timekeeping import last_reading
from localsim.rules.objects.storage_model import StorageError
from localsim.rules.objects.store import ObjectStore
from localsim.rules.project.log_store import LogStore
from localsim.rules.project.project_metadata import ProjectMetadata
from localsim.rules.project.secret_store import SecretStore
from localsim.rules.project.service_account_keys import ServiceAccountKeyStore
from localsim.rules.project.worker_samples import WorkerSampleStore
from localsim.rules.scenario.project_checks import DEFAULT_ACCOUNT
from localsim.rules.scenario.scenario import Scenario, ScenarioError, load_scenario
from localsim.server.isolation_choice import IsolationChoice
from localsim.server.settings import Settings
from localsim.services.auth.iam import ACCOUNTS
from localsim.services.auth.signing_keys import SigningKeys
from localsim.services.auth.tokens import WorkerTokens
from localsim.services.other_apis.other_api_calls import ProjectContext
from localsim.services.ssh.loopback_ssh import LoopbackSshServers
from localsim.services.worker.chip_lock_server import ChipLockServers
from localsim.services.worker.metadata_server import open_metadata
from localsim.services.worker.usage_sampler import UsageSampler
from localsim.state_directory import ServeError, StateDirectory
from localsim.workers.chip_holders import CHIP_FILES
from localsim.workers.slices import OpenSshEndpoint, Slices
from localsim.workers.worker import SYSTEM_PATH, Worker, WorkerContext

if TYPE_CHECKING:
    from localsim.server.tls_services import TlsServices
    from localsim.services.ssh.ssh_server import SshServer

PROJECT, PROJECT_NUMBER = accounts.PROJECT, accounts.PROJECT_NUMBER
ZONE = "us-west4-a"
BUCKET = "local-bucket"
MANUAL_START_S = 1_800_000_000.0


@dataclass(frozen=True, slots=True)
class Components:
    """The parts of a simulated cloud."""

    orchestrator: Orchestrator
    objects: ObjectStore
    slices: Slices
    project: ProjectContext
    sampler: UsageSampler
    ports: Mapping[str, int]
    hosts: IsolationChoice
    loopback_ssh: LoopbackSshServers | None
    worker_tokens: WorkerTokens
    tls_services: "TlsServices | None"
    offline: bool
    logs_requests: bool


def requested_scenario(settings: Settings) -> Scenario:
    """The scenario of the settings, `plenty` by default; raises ServeError."""
    try:
        return Scenario() if settings.scenario is None else load_scenario(settings.scenario)
    except ScenarioError as error:
        raise ServeError(str(error), 2) from error


def build_components(
    settings: Settings,
    rules: Scenario,
    state: StateDirectory,
    connection: sqlite3.Connection,
    hosts: IsolationChoice,
) -> Components:
    """Build every part on the state that an earlier run left; raises ServeError."""
    clock = Clock(
        scale=settings.time_scale,
        manual_start_s=MANUAL_START_S if settings.manual_clock else None,
        last=last_reading(connection),
    )
    wanted = ports.port_names(tls=settings.tls)
    chosen = ports.choose_ports(settings.port, state.remembered_ports(), wanted)
    tls_services = _open_tls_services(settings, state, chosen, clock) if settings.tls else None
    cloud = Cloud(connection, clock, project=PROJECT, project_number=PROJECT_NUMBER, scenario=rules)
    objects = ObjectStore(state.path / "storage", clock)
    _ensure_bucket(objects, rules)
    environment = _environment(settings, hosts, chosen)
    named = {accounts.email(name, PROJECT): roles for name, roles in ACCOUNTS.items()}
    tokens = WorkerTokens(roles=lambda: cloud.scenario.worker_roles, named=named)
    loopback_ssh = _loopback_doors(state) if settings.loopback_doors else None
    chips = ChipLockServers(CHIP_FILES[hosts.isolation.mode])
    slices = Slices(
        state.path,
        isolation=hosts.isolation,
        open_ssh=_open_ssh if loopback_ssh is None else _also_on_loopback(loopback_ssh),
        open_metadata=open_metadata,
        open_chips=chips.open,
        context=WorkerContext(
            now=clock.now,
            tell=lambda *news: orchestrator.tell(*news),
            lost=lambda *worker: orchestrator.lose(*worker),
            extra_environment=lambda: environment,
            access_token=tokens.issue_token,
        ),
    )
    metadata, samples = ProjectMetadata(connection), WorkerSampleStore()
    orchestrator = Orchestrator(cloud, slices, clock, project_metadata=metadata.items)
    return Components(
        orchestrator=orchestrator,
        objects=objects,
        slices=slices,
        project=ProjectContext(
            id=PROJECT,
            number=PROJECT_NUMBER,
            metadata=metadata,
            secrets=SecretStore(connection),
            logs=LogStore(connection),
            signing_keys=SigningKeys(
                ServiceAccountKeyStore(connection),
                state.path / "google" / "signing",
                {} if tls_services is None else tls_services.tokens.keys,
                partial(_is_enabled, cloud),
            ),
            issue_token=tokens.issue_token,
            samples=samples,
            cloud_port=orchestrator,
            now=clock.now,
            scenario=lambda: cloud.scenario,
        ),
        sampler=UsageSampler(slices, chips, samples, clock),
        ports=chosen,
        hosts=hosts,
        loopback_ssh=loopback_ssh,
        worker_tokens=tokens,
        tls_services=tls_services,
        offline=settings.offline,
        logs_requests=settings.log_requests,
    )


def _ensure_bucket(objects: ObjectStore, rules: Scenario) -> None:
    try:
        objects.ensure_bucket(PROJECT, BUCKET, bucket_properties(rules))
    except StorageError as error:  # of where the scenario wants it
        raise ServeError(f"bucket_location: {error.message}", 2) from error


def bucket_properties(rules: Scenario) -> dict[str, str]:
    """The settings of the bucket that a cloud begins with."""
    return {"location": rules.bucket_location}


def _environment(
    settings: Settings, hosts: IsolationChoice, chosen: Mapping[str, int]
) -> dict[str, str]:
    """The variables of programs on workers: where Google's names mean nothing, addresses."""
    common = {"GOOGLE_CLOUD_PROJECT": PROJECT}
    if settings.python is not None:
        common["PATH"] = f"{settings.python.parent.resolve()}:{SYSTEM_PATH}"
    if hosts.vpc is not None:
        return common
    storage, others = (f"http://{LOOPBACK}:{chosen[name]}" for name in ("storage", "neighbours"))
    return {
        **common,
        # What gcsfs makes a bucket in; with an emulator it does not ask the metadata server.
        "GCSFS_DEFAULT_PROJECT": PROJECT,
        "STORAGE_EMULATOR_HOST": storage,
        "CLOUD_STORAGE_EMULATOR_ENDPOINT": storage,  # C++, which pyarrow uses
        "TENSORSTORE_GCS_HTTP_URL": storage,
        # gcsfs would ask over gRPC what kind of bucket it has, for a minute.
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{storage}/storage/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"http://{LOOPBACK}:{chosen['tpu_rest']}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{others}/compute/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_SERVICEUSAGE": f"{others}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER": f"{others}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": f"{others}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": f"{others}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_MONITORING": f"{others}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBILLING": f"{others}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDQUOTAS": f"{others}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAM": f"{others}/",
    }


def _is_enabled(cloud: Cloud, email: str) -> bool:
    """Whether the scenario leaves the service account of an address switched on."""
    is_default = email == accounts.default_compute_email(PROJECT_NUMBER)
    states = cloud.scenario.service_accounts
    name = DEFAULT_ACCOUNT if is_default else email.partition("@")[0]
    return states.get(email, states.get(name, "enabled")) == "enabled"


def _loopback_doors(state: StateDirectory) -> LoopbackSshServers:
    try:
        return LoopbackSshServers(state.path)
    except OSError as error:
        raise ServeError(f"--loopback-doors: {error.strerror or error}", 60) from error


async def _open_ssh(worker: Worker, listening: socket.socket) -> "SshServer":
    # The library of SSH takes a quarter of a simulator's start, and many never have a worker.
    from localsim.services.ssh.ssh_server import open_ssh_server

    return await open_ssh_server(worker, listening)


def _also_on_loopback(loopback_ssh: LoopbackSshServers) -> OpenSshEndpoint:
    async def opening(worker: Worker, listening: socket.socket) -> "SshServer":
        server = await _open_ssh(worker, listening)
        try:
            await loopback_ssh.open(worker, server)
        except BaseException:
            await server.close()
            raise
        return server

    return opening


def _open_tls_services(
    settings: Settings, state: StateDirectory, chosen: Mapping[str, int], clock: Clock
) -> "TlsServices":
    from localsim.server.tls_services import (
        open_tls_services,  # certificates: nobody else pays for them
    )

    return open_tls_services(
        state, chosen, project=PROJECT, now=clock.now, time_scale=settings.time_scale
    )
