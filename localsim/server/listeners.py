"""Every port of a simulated cloud: on this machine's loopback, and in the VPC where there is one.

Workers find Google's APIs by Google's names, at port 443 of the VPC. On the VPC's own loopback,
which no worker reaches, each service answers at the same number as outside, for this machine's
user.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from aiohttp import web

from localsim import accounts, service_ports
from localsim.loopback import LOOPBACK, LOOPBACK_6
from localsim.orchestrator import Orchestrator
from localsim.rules.db.journal import NotWrittenError
from localsim.rules.scenario.project_checks import EVERYBODY, firewall_rules, lets_ssh_in
from localsim.rules.scenario.roles import OWNER
from localsim.server.components import (
    BUCKET,
    PROJECT,
    PROJECT_NUMBER,
    ZONE,
    Components,
    bucket_properties,
)
from localsim.server.workstation import Workstation
from localsim.services.auth import iam, oauth2
from localsim.services.authorization import (
    Authenticator,
    GrpcAuthorization,
    other_api_authorization,
    rest_authorization,
    storage_authorization,
)
from localsim.services.control import control
from localsim.services.control.control import ControlActions
from localsim.services.net import proxy, relay
from localsim.services.net.acceptor import Acceptor
from localsim.services.net.answer_date import dated
from localsim.services.net.google_hosts import HTTPS_PORT, SERVICE_OF
from localsim.services.net.grpc_front import GrpcFront
from localsim.services.net.relayed_peers import LazyServer
from localsim.services.net.request_guard import guard
from localsim.services.net.socks import SocksServer, serve_socks
from localsim.services.net.tls_front import TlsFront
from localsim.services.other_apis import other_api_server
from localsim.services.other_apis.message_calls import MessageMethods
from localsim.services.rest import rest
from localsim.services.storage import application as storage
from localsim.services.storage.body_process import BodyProcess
from localsim.services.storage.grpc.shared_port import SharedPort
from localsim.services.storage.grpc.storage_handlers import StorageHandlers
from localsim.services.storage.request_holds import RequestHolds
from localsim.services.storage.request_watch import RequestWatch
from localsim.services.storage.service import StorageService, open_service
from localsim.services.storage.signing.signature_verifier import SignatureVerifier
from localsim.services.storage.wire.page_access import page_grants, serve_pages
from localsim.services.storage.wire.request_faults import FaultSource
from localsim.services.storage.wire.request_log import RequestLog
from localsim.services.tpu import tpu_grpc
from localsim.services.worker.metadata_server import open_read_only_metadata
from localsim.state_directory import StateDirectory
from localsim.workers.isolation.namespace_host import METADATA_PORT
from localsim.workers.isolation.vpc import API_ADDRESS, METADATA_ADDRESS
from localsim.workers.metadata_tree import SCOPES

if TYPE_CHECKING:
    import ssl

    from localsim.server.certificates import Certificates
    from localsim.server.tls_services import TlsServices

OWN_NAMES = (LOOPBACK, "localhost", f"[{LOOPBACK_6}]")
"""As a client on this machine writes the host of a port."""
PACKAGE_PROXY_URL = f"http://{API_ADDRESS}:{proxy.PORT}"
"""The HTTP proxy for the installation of packages, as workers see it."""


async def open_ports(parts: Components, state: StateDirectory, stack: AsyncExitStack) -> None:
    """Open every port, and bring up the workers that should be up."""
    orchestrator, chosen, tls_services = parts.orchestrator, parts.ports, parts.tls_services
    await parts.slices.sweep(orchestrator.cloud.slices_to_keep())
    storage_service = _open_storage(parts, state, stack)
    plain_grpc = await _open_grpc(parts, storage_service, stack)
    secure_grpc = _secure_grpc(parts, storage_service, stack)
    if tls_services is not None:
        await service_ports.serve_secure_grpc(
            _grpc_handlers(parts, storage_service),
            chosen["google_tpu"],
            stack,
            certificate=tls_services.certificate,
            interceptors=(_grpc_authorization(parts, tls_services.project),),
        )
    servers = {}
    for name, app in _applications(parts, state, storage_service).items():
        inside = await _open_vpc_sockets(parts, name, stack)
        outside = _service_ports(name, chosen, tls_services)
        if name != "storage":
            servers[name] = await service_ports.serve_http(app, stack, *outside, inside=inside)
            continue
        shared = [SharedPort(plain_grpc.lead, plain_grpc.passing), SharedPort(secure_grpc.lead)]
        for port in shared:
            stack.push_async_callback(port.close)
        servers[name] = await service_ports.serve_http(
            app,
            stack,
            *outside,
            inside=inside,
            unpacks=False,
            wrap=shared[0].wrap,
            wrap_tls=shared[1].wrap,
        )
    await _open_tls_front(parts, state, servers, secure_grpc, stack)
    await _open_socks(parts, stack)
    await _open_relays(parts, stack)
    await _open_workstation(parts, stack)
    await _open_package_proxy(parts, stack)
    state.write("ports.json", {**state.remembered_ports(), **chosen})
    await orchestrator.reboot()


async def _open_grpc(
    parts: Components, storage_service: StorageService, stack: AsyncExitStack
) -> GrpcFront:
    """Serve gRPC without TLS, behind what guards it."""
    port = parts.ports["tpu_grpc"]
    front = GrpcFront(_own_names(parts.ports, *OWN_NAMES))
    stack.push_async_callback(front.close)
    authorization = _grpc_authorization(parts, PROJECT, secure=False)
    front.server_port = await service_ports.start_grpc(
        _grpc_handlers(parts, storage_service, front.admits), stack, interceptors=(authorization,)
    )
    for listening in service_ports.open_port(port):
        front.open(listening)
    for listening in await _open_vpc_sockets(parts, "tpu_grpc", stack):
        front.open(listening)
    return front


def _secure_grpc(
    parts: Components, storage_service: StorageService, stack: AsyncExitStack
) -> LazyServer:
    """gRPC for who has spoken TLS to another port, and has to bring a token."""

    async def start() -> int:
        handlers = _grpc_handlers(parts, storage_service, server.admits)
        guard = _grpc_authorization(parts, PROJECT)
        return await service_ports.start_grpc(handlers, stack, interceptors=(guard,))

    server = LazyServer(start)
    return server


def _grpc_authorization(parts: Components, project: str, *, secure: bool = True) -> Any:
    roles_of = parts.objects.buckets.roles_of
    return GrpcAuthorization(_callers(parts), project, secure=secure, bucket_roles=roles_of)


def _grpc_handlers(
    parts: Components,
    storage_service: StorageService,
    admits: Callable[[str], bool] = lambda _: True,
) -> tuple[Any, ...]:
    """Cloud TPU, and behind it nothing: it answers every method that the others do not have."""
    methods = MessageMethods(parts.project, other_api_server.MESSAGE_METHODS, admits)
    of_storage = StorageHandlers(storage_service, admits)
    return (methods, of_storage, *tpu_grpc.handlers(parts.orchestrator, admits))


def _open_storage(
    parts: Components, state: StateDirectory, stack: AsyncExitStack
) -> StorageService:
    """The storage service of every wire, with what watches it."""
    orchestrator = parts.orchestrator
    receiver = BodyProcess()
    stack.callback(receiver.close)
    faults = FaultSource(orchestrator.cloud.storage_faults, orchestrator.clock.pause)
    log = _request_log(parts, state, stack)
    holds = RequestHolds(orchestrator, parts.slices.is_up)
    watch = RequestWatch(log, holds, parts.slices.find_sender)
    public_keys = parts.project.signing_keys.public_keys
    signatures = SignatureVerifier(parts.objects.hmac_keys, public_keys)
    return open_service(parts.objects, faults, receiver, watch, signatures)


def _applications(
    parts: Components, state: StateDirectory, storage_service: StorageService
) -> dict[str, Any]:
    """The HTTP applications, by the name of their port."""
    orchestrator, tls_services = parts.orchestrator, parts.tls_services
    guards = _guards(parts.ports, *OWN_NAMES, inside=SERVICE_OF)
    callers = _callers(parts)
    granted: Callable[[str], Any] = oauth2.refuse_assertion
    if tls_services is not None:
        granted = tls_services.tokens.granted
    own = _guards(parts.ports, *OWN_NAMES)
    storage_guards = _storage_guards(parts, callers, storage_service.signatures)
    authorize = other_api_authorization(callers, PROJECT)
    return {
        "tpu_rest": rest.application(
            orchestrator,
            (dated(orchestrator.clock.now), *guards, rest_authorization(callers)),
        ),
        "storage": storage.application(storage_service, storage_guards),
        "neighbours": other_api_server.application(parts.project, granted, guards, authorize),
        "control": control.application(
            build_controls(parts, storage_service.watch), state.token(), own
        ),
    }


def _storage_guards(
    parts: Components, callers: Authenticator, signatures: SignatureVerifier
) -> tuple[Any, ...]:
    """The guards of Cloud Storage: a bucket's CORS rules may let a web page in."""
    buckets = parts.objects.buckets
    pages = page_grants(buckets)
    guards = _guards(parts.ports, *OWN_NAMES, inside=SERVICE_OF, is_let_in=pages)
    authorization = storage_authorization(callers, parts.objects.roles_of, signatures)
    return (*guards, serve_pages, authorization)


def _request_log(
    parts: Components, state: StateDirectory, stack: AsyncExitStack
) -> RequestLog | None:
    """The log of storage requests, where it is wanted; raises OSError."""
    if not parts.logs_requests:
        return None
    log = RequestLog(parts.orchestrator.clock.now, state.private("requests.jsonl"))
    stack.callback(log.close)
    return log


def _callers(parts: Components) -> Authenticator:
    cloud, tls_services = parts.orchestrator.cloud, parts.tls_services

    def everybody() -> iam.Account | None:
        return iam.everybody(cloud.scenario.member_roles.get(EVERYBODY, (OWNER,)))

    tokens = None if tls_services is None else tls_services.tokens
    return Authenticator(parts.worker_tokens, tokens, everybody, partial(_roles_of, parts))


def _roles_of(parts: Components, email: str) -> Sequence[str]:
    """The roles in the project of a service account, by its e-mail address."""
    scenario = parts.orchestrator.cloud.scenario
    if email in parts.worker_tokens.named:
        return parts.worker_tokens.named[email]
    if email == accounts.default_compute_email(PROJECT_NUMBER):
        return scenario.worker_roles
    return scenario.member_roles.get(f"serviceAccount:{email}", ())


def _guards(
    chosen: Mapping[str, int],
    *hosts: str,
    inside: Iterable[str] = (),
    is_let_in: Callable[[web.Request], bool] = lambda _: False,
) -> tuple[Any, ...]:
    """Refuse what has no Host header that honest clients send, in lower case, and web pages.

    Names of `inside` stand for the default port of https. A page may be let in all the same.
    """
    default = {f"{name}{port}" for name in inside for port in ("", f":{HTTPS_PORT}")}
    allowed = _own_names(chosen, *hosts) | default
    return (guard(hosts=lambda: allowed, is_let_in=is_let_in),)


def _own_names(chosen: Mapping[str, int], *hosts: str) -> frozenset[str]:
    """The hosts at each of the ports, as clients write them."""
    return frozenset(f"{host}:{port}" for host, port in product(hosts, chosen.values()))


def _service_ports(
    name: str, chosen: Mapping[str, int], tls_services: "TlsServices | None"
) -> "list[tuple[int, ssl.SSLContext | None]]":
    """The port of a service, and its TLS port where there is one."""
    outside: list[tuple[int, ssl.SSLContext | None]] = [(chosen[name], None)]
    if tls_services is not None and name in service_ports.TLS_TWINS:
        tls = tls_services.grpc_tls if name == "storage" else tls_services.tls
        outside.append((chosen[service_ports.TLS_TWINS[name]], tls))
    return outside


async def _open_vpc_sockets(
    parts: Components, name: str, stack: AsyncExitStack
) -> list[socket.socket]:
    """The listening sockets of a service on the VPC's loopback, open until the stack closes.

    Raises OSError.
    """
    if parts.hosts.vpc is None:
        return []
    listening = await parts.hosts.vpc.listen(LOOPBACK, parts.ports[name])
    stack.callback(listening.close)
    return [listening]


async def _open_socks(parts: Components, stack: AsyncExitStack) -> None:
    """Lead clients on this machine to the workers, unless a fault makes the VPC unreachable."""
    cloud = parts.orchestrator.cloud
    ports = service_ports.open_port(parts.ports["vpc"])

    def is_cut_off() -> bool:
        return cloud.meet_unreachable_vpc() or not lets_ssh_in(
            firewall_rules(cloud.scenario.firewalls)
        )

    socks = await serve_socks(parts.slices, ports, is_cut_off=is_cut_off)
    stack.push_async_callback(socks.close)
    for listening in await _open_vpc_sockets(parts, "vpc", stack):
        socks.open(listening)
    stack.callback(asyncio.create_task(_cut_clients(parts.orchestrator, socks)).cancel)


async def _cut_clients(orchestrator: Orchestrator, socks: SocksServer) -> None:
    """Cut the connections to workers whenever the VPC becomes unreachable, until cancelled."""
    while True:
        await orchestrator.until(lambda cloud: cloud.vpc_is_unreachable, None)
        if await socks.cut_clients():
            with suppress(NotWrittenError):  # only its count is lost
                orchestrator.cloud.meet_unreachable_vpc()
        await orchestrator.until(lambda cloud: not cloud.vpc_is_unreachable, None)


async def _open_relays(parts: Components, stack: AsyncExitStack) -> None:
    """Relay ports in the VPC that are served with TLS, where no sockets made by others do."""
    for name in parts.ports.keys() & set(service_ports.TLS_PORTS):
        acceptor = Acceptor(relay.relay_to(partial(proxy.connect, LOOPBACK, parts.ports[name])))
        stack.push_async_callback(acceptor.close)
        for listening in await _open_vpc_sockets(parts, name, stack):
            acceptor.open(listening)


async def _open_tls_front(
    parts: Components,
    state: StateDirectory,
    servers: Mapping[str, Callable[[], asyncio.Protocol]],
    secure_grpc: LazyServer,
    stack: AsyncExitStack,
) -> None:
    """Answer to Google's names in the VPC."""
    if parts.hosts.vpc is None:
        return

    async def open_context() -> "ssl.SSLContext":
        return (await asyncio.to_thread(find_certificates, state)).server_context()

    by_host = {host: servers[name] for host, name in SERVICE_OF.items()}
    front = TlsFront(open_context, by_host, secure_grpc.lead)
    stack.push_async_callback(front.close)
    front.open(await parts.hosts.vpc.listen(API_ADDRESS, HTTPS_PORT))


def find_certificates(state: StateDirectory) -> "Certificates":
    """The simulator's certificates, made again where they are missing; raises OSError, ValueError.

    The first call loads what makes certificates, which many simulators never need.
    """
    from localsim.server.certificates import ensure_certificates

    return ensure_certificates(state.path / "google")


async def _open_workstation(parts: Components, stack: AsyncExitStack) -> None:
    """Serve the metadata of the machine that `local shell` is on."""
    if parts.hosts.vpc is None:
        return
    account = accounts.default_compute_email(PROJECT_NUMBER)
    token = parts.worker_tokens.issue_token(account, SCOPES)
    machine = Workstation(PROJECT, PROJECT_NUMBER, ZONE, API_ADDRESS, account, token)
    listening = await parts.hosts.vpc.listen(METADATA_ADDRESS, METADATA_PORT)
    server = await open_read_only_metadata(machine, listening)
    stack.push_async_callback(server.close)


async def _open_package_proxy(parts: Components, stack: AsyncExitStack) -> None:
    if parts.hosts.vpc is None or parts.offline:
        return
    way_out = proxy.Proxy(proxy.resolve, proxy.connect)
    stack.push_async_callback(way_out.close)
    way_out.open(await parts.hosts.vpc.listen(API_ADDRESS, proxy.PORT))


def build_controls(parts: Components, watch: RequestWatch | None = None) -> ControlActions:
    """What the control port can do to these parts."""
    orchestrator, objects = parts.orchestrator, parts.objects

    async def preempt(node: str, zone: str, notice_s: float | None) -> float:
        name = f"projects/{PROJECT}/locations/{zone}/nodes/{node}"
        told_s = await orchestrator.run(lambda cloud: cloud.preempt(name, notice_s))
        await orchestrator.settle()
        return told_s

    async def advance(seconds: float) -> float:
        orchestrator.clock.advance(seconds)
        await orchestrator.settle()
        await parts.sampler.catch_up()
        return orchestrator.clock.now()

    async def reset() -> None:
        await orchestrator.reset()
        parts.project.clear()
        objects.begin_again(PROJECT, BUCKET, bucket_properties(orchestrator.cloud.scenario))
        if watch is not None:
            watch.clear()

    def status() -> dict[str, Any]:
        counts = {**orchestrator.cloud.counts(), "objects": objects.count()}
        return {
            **counts,
            "unreadable": [asdict(record) for record in orchestrator.cloud.unreadable],
        }

    return ControlActions(
        preempt,
        advance,
        orchestrator.clock.now,
        reset,
        status,
        orchestrator.run,
        orchestrator.require_possible,
        orchestrator.until,
        orchestrator.settle,
        None if watch is None or watch.log is None else watch.log.rows,
    )
