"""Slices on real sockets and a client that reaches them as tpuctl does: SOCKS5, then SSH."""

import asyncio
import gc
import http.client
import ipaddress
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import asyncssh

from localsim.services.net.socks import SocksServer, serve_socks
from localsim.services.ssh.ssh_server import open_ssh_server
from localsim.services.worker.chip_lock_server import ChipLockServers
from localsim.services.worker.metadata_server import open_metadata
from localsim.worker_facts import HostIdentity
from localsim.workers.chip_holders import CHIP_FILES
from localsim.workers.isolation.modes import Isolation
from localsim.workers.isolation.process import ProcessIsolation
from localsim.workers.slices import Slices
from localsim.workers.spec import PublishAttribute, SliceSpec
from localsim.workers.worker import WorkerContext

KEY = asyncssh.generate_private_key("ssh-ed25519", comment="ada@laptop")
OTHER_KEY = asyncssh.generate_private_key("ssh-ed25519", comment="eve@laptop")
GOOGLE = {"Metadata-Flavor": "Google"}
NAME = "projects/demo/locations/us-west4-a/nodes/digits"


def ssh_keys(user: str, key: asyncssh.SSHKey) -> str:
    return f"{user}:{key.export_public_key().decode().strip()}"


SPEC = SliceSpec(
    name=NAME,
    node_id=4611686018427387905,
    project="demo",
    project_number=314159265358,
    zone="us-west4-a",
    accelerator_type="v5litepod-16",
    runtime_version="v2-alpha-tpuv5-lite",
    spot=True,
    addresses=("10.128.0.2", "10.128.0.3", "10.128.0.4", "10.128.0.5"),
    metadata={"ssh-keys": ssh_keys("ada", KEY), "team": "vision"},
)
ONE = replace(
    SPEC, accelerator_type="v5litepod-4", addresses=("10.128.0.2",)
)  # a slice of a single worker


async def tell_nobody(*_: object) -> None:
    """A control plane that takes every news."""


def new_slices(
    state_dir: Path,
    *,
    tell: PublishAttribute = tell_nobody,
    now: Callable[[], float] = time.time,
    isolation: Isolation | None = None,
) -> Slices:
    isolation = isolation or ProcessIsolation()
    return Slices(
        state_dir,
        isolation=isolation,
        open_ssh=open_ssh_server,
        open_metadata=open_metadata,
        open_chips=ChipLockServers(CHIP_FILES[isolation.mode]).open,
        context=WorkerContext(
            now=now,
            tell=tell,
            lost=tell,
            extra_environment=lambda: {"STORAGE_EMULATOR_HOST": "http://127.0.0.1:9"},
        ),
    )


async def _process(_: Path) -> ProcessIsolation:
    return ProcessIsolation()


async def _namespace(state_dir: Path) -> Isolation:
    from localsim.workers.isolation.namespace import NamespaceIsolation

    return await NamespaceIsolation.open(state_dir)


OPEN: dict[str, Callable[[Path], Awaitable[Isolation]]] = {
    "process": _process,
    "namespace": _namespace,
}
"""How each isolation is made for a state directory."""


class Vpc:
    """Slices, the proxy in front of them, and who their workers said they are."""

    def __init__(self, slices: Slices, proxy: SocksServer) -> None:
        self.slices = slices
        self.proxy = proxy
        self.identities: dict[str, HostIdentity] = {}

    async def boot(self, spec: SliceSpec) -> tuple[HostIdentity, ...]:
        identities = await self.slices.boot(spec)
        self.identities.update(zip(spec.addresses, identities, strict=True))
        return identities

    def ssh(self, address: str = "10.128.0.2", *, user: str = "ada", key=KEY):
        return _login(self, address, user, key)


@asynccontextmanager
async def vpc(
    state_dir: Path,
    *specs: SliceSpec,
    handshake_s: float = 10.0,
    tell: PublishAttribute = tell_nobody,
    now: Callable[[], float] = time.time,
    mode: str = "process",
) -> AsyncIterator[Vpc]:
    """`mode` is the isolation's; a test of `namespace` asks for the fixture `namespaces`."""
    isolation = await OPEN[mode](state_dir)
    slices = new_slices(state_dir, tell=tell, now=now, isolation=isolation)
    proxy = await serve_socks(slices, handshake_s=handshake_s)
    here = Vpc(slices, proxy)
    try:
        for spec in specs:
            await here.boot(spec)
        yield here
    finally:
        try:
            await slices.close()
            await proxy.close()
            await isolation.close()
        finally:
            if left := leftovers(state_dir):
                await kill_leftovers(state_dir)
        assert left == []


@asynccontextmanager
async def _login(here: Vpc, address: str, user: str, key: asyncssh.SSHKey):
    trusted = asyncssh.import_public_key(here.identities[address].host_key)
    async with asyncssh.connect(
        sock=await dial(here.proxy.port, address),
        host=address,
        username=user,
        client_keys=[key],
        known_hosts=([trusted], [], []),
        agent_path=None,
        config=None,
    ) as connection:
        yield connection


async def dial(proxy_port: int, address: str, port: int = 22) -> socket.socket:
    """A connection through the proxy; ConnectionRefusedError carries its reply code."""
    request = b"\x05\x01\x00\x01" + ipaddress.IPv4Address(address).packed + struct.pack("!H", port)
    client, replies = await exchange(proxy_port, b"\x05\x01\x00", 2, request, 10)
    if reply := replies[-1][1]:
        client.close()
        raise ConnectionRefusedError(reply)
    return client


async def exchange(proxy_port: int, *turns: bytes | int) -> tuple[socket.socket, list[bytes]]:
    """Send bytes and receive as many as the numbers say, in turn."""
    loop = asyncio.get_running_loop()
    client = socket.socket()
    client.settimeout(0)
    await loop.sock_connect(client, ("127.0.0.1", proxy_port))
    replies = []
    for turn in turns:
        if isinstance(turn, bytes):
            await loop.sock_sendall(client, turn)
        else:
            replies.append(await _receive(client, turn))
    return client, replies


async def _receive(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = await asyncio.get_running_loop().sock_recv(client, count - len(data))
        if not part:
            break
        data += part
    return data


async def until(condition: Callable[[], object], timeout_s: float = 30.0) -> None:
    """Return once the condition holds; raises TimeoutError."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 -- what it looks at has no event
            await asyncio.sleep(0.01)


async def server_of(here: Vpc, address: str = "10.128.0.2") -> str:
    """Where the metadata server of a worker is, `host:port`."""
    async with here.ssh(address) as worker:
        return (await worker.run("echo -n $GCE_METADATA_HOST")).stdout


async def ask(
    server: str,
    path: str,
    headers: Mapping[str, str] = GOOGLE,
    *,
    method: str = "GET",
    body: str | bytes = "",
) -> tuple[int, dict[str, str], str]:
    """The status, headers and text that a metadata server answers."""
    content = body.encode() if isinstance(body, str) else body
    return await asyncio.to_thread(_ask, server, method, path, content, headers)


def _ask(server: str, method: str, path: str, content: bytes, headers: Mapping[str, str]):
    connection = http.client.HTTPConnection(server, timeout=10)
    try:
        connection.request(method, quote(path, safe="/?&=%"), content or None, dict(headers))
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read().decode()
    finally:
        connection.close()


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def pid_of(process: asyncssh.SSHClientProcess) -> int:
    """A pid that the command printed as its first line."""
    return int(await process.stdout.readline())


def run(test: Callable[[], Awaitable[None]]) -> None:
    try:
        asyncio.run(test())
    finally:
        gc.collect()  # what was left open is this test's fault, not a later one's


async def kill_leftovers(state_dir: Path) -> None:
    """End what still runs on any slice under the directory, however the test went."""
    await ProcessIsolation().kill(list((state_dir / "slices").glob("*")))


def leftovers(state_dir: Path) -> list[int]:
    """Processes of this machine that carry the marker of a slice under the directory."""
    ids = [path.name.removesuffix(".gone") for path in (state_dir / "slices").glob("*")]
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if _marked(pid, ids)]


def _marked(pid: int, slice_ids: list[str]) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return any(f"LOCALSIM_WORKER={each}-".encode() in environment for each in slice_ids)
