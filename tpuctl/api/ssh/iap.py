"""Google's IAP TCP forwarding: a TCP connection to a VM by its name, inside a WebSocket.

The relay's protocol, version 4, as gcloud speaks it (api_lib/compute/iap_tunnel_websocket.py):
frames of a 16-bit tag, then for data a 32-bit length and at most 16 KiB, for an acknowledgement the
64-bit count of bytes received so far, sent when more than two frames' worth is unacknowledged.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

import aiohttp

from tpuctl.api.credentials import tokens
from tpuctl.api.ssh.dialers import SSH_PORT, unreachable_error
from tpuctl.api.ssh.known_hosts import WorkerIdentity
from tpuctl.api.ssh.stream_socket import socket_of
from tpuctl.config import GOOGLE_TPU, Context
from tpuctl.errors import PermissionDeniedError, TpuctlError, UsageError
from tpuctl.models.node import Node, Worker
from tpuctl.network_policy import CONNECT_S

RELAY = "wss://tunnel.cloudproxy.app/v4"
SUBPROTOCOL = "relay.tunnel.cloudproxy.app"
ORIGIN = "bot:iap-tunneler"
CONNECTED, DATA, ACKNOWLEDGED = 0x0001, 0x0004, 0x0007
FRAME_BYTES = 16384
UNACKNOWLEDGED_BYTES = 2 * FRAME_BYTES
NOT_AUTHORIZED = (4033, 401, 403)
"""The close code and the statuses of HTTP that say so."""
GRANT_HINT = "ask for roles/iap.tunnelResourceAccessor"


@dataclass(frozen=True, slots=True)
class IapRelay:
    """The route to a node's workers through the relay."""

    node: Node
    known: Mapping[int, WorkerIdentity]
    project: str
    headers: Callable[[], Mapping[str, str]]
    """Returns request headers with a fresh token."""
    relay: str = RELAY

    async def dial(self, worker: Worker, port: int = SSH_PORT) -> socket.socket:
        """A connection to a worker; raises TransientError, PermissionDeniedError, UsageError."""
        identity = self.known.get(worker.worker_id)
        if identity is None or not identity.instance:
            raise UsageError(
                f"worker {worker.worker_id} does not report the name of its VM, which IAP needs",
                hint="use another --dialer",
            )
        headers = {"Origin": ORIGIN, **await asyncio.to_thread(self.headers)}
        tunnel = _Tunnel()
        try:
            async with asyncio.timeout(CONNECT_S):
                await tunnel.open(self._url(identity.instance, port), headers)
        except BaseException as error:
            await tunnel.close()
            if isinstance(error, (OSError, TimeoutError, aiohttp.ClientError)):
                raise _tunnel_error(worker, identity.instance, error) from error
            raise
        return socket_of(tunnel.receive, tunnel.send, tunnel.close)

    async def close(self) -> None:
        """Do nothing: every tunnel ends with its own connection."""

    def _url(self, instance: str, port: int) -> str:
        query = {
            "project": self.project,
            "zone": self.node.zone,
            "instance": instance,
            "interface": "nic0",
            "port": port,
            "newWebsocket": "True",
        }
        return f"{self.relay}/connect?{urlencode(query)}"


def google_relay(
    context: Context | None, node: Node, known: Mapping[int, WorkerIdentity]
) -> IapRelay:
    """The relay, with the credentials of a context that is Google's; raises UsageError."""
    access = tokens(context) if context and context.tpu_endpoint == GOOGLE_TPU else None
    if context is None or access is None:
        raise UsageError(
            "iap needs a context with Google's endpoints and credentials",
            hint="use another --dialer",
        )

    def headers() -> Mapping[str, str]:
        carried: dict[str, str] = {}
        access.apply(carried)
        return carried

    return IapRelay(node, known, context.project, headers)


class RelayClosedError(OSError):
    """The relay ended the connection and said why by a code of its own."""


class _Tunnel:
    """One connection through the relay."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession()
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._received_bytes = self._acknowledged_bytes = 0

    async def open(self, url: str, headers: Mapping[str, str]) -> None:
        """Return once the VM has taken the connection."""
        self._socket = await self._session.ws_connect(
            url, headers=headers, protocols=(SUBPROTOCOL,), max_msg_size=0
        )
        tag, _ = await self._frame()
        if tag != CONNECTED:
            raise OSError("the relay does not speak its protocol")

    async def receive(self) -> bytes:
        """The next bytes; b"" at the end. Raises OSError."""
        while True:
            tag, payload = await self._frame()
            if tag is None:
                return b""
            if tag == DATA:
                await self._acknowledge(len(payload))
                return payload

    async def send(self, data: bytes) -> None:
        """Send bytes; raises OSError."""
        for start in range(0, len(data), FRAME_BYTES):
            part = data[start : start + FRAME_BYTES]
            await self._send(struct.pack("!HI", DATA, len(part)) + part)

    async def close(self) -> None:
        """Close the WebSocket and its session."""
        await self._session.close()

    async def _frame(self) -> tuple[int | None, bytes]:
        """The next frame's tag and data; no tag at the end."""
        if self._socket is None:
            return None, b""
        message = await self._socket.receive()
        if message.type != aiohttp.WSMsgType.BINARY:
            if message.type is aiohttp.WSMsgType.CLOSE and message.data not in (1000, None):
                raise RelayClosedError(message.data, message.extra or "closed by the relay")
            return None, b""
        tag = int.from_bytes(message.data[:2])
        return tag, bytes(message.data[6:]) if tag in (CONNECTED, DATA) else b""

    async def _acknowledge(self, size_bytes: int) -> None:
        self._received_bytes += size_bytes
        if self._received_bytes - self._acknowledged_bytes > UNACKNOWLEDGED_BYTES:
            self._acknowledged_bytes = self._received_bytes
            with contextlib.suppress(OSError):  # it has sent its last: what came still counts
                await self._send(struct.pack("!HQ", ACKNOWLEDGED, self._received_bytes))

    async def _send(self, frame: bytes) -> None:
        if self._socket is None or self._socket.closed:
            raise ConnectionResetError("the tunnel is closed")
        await self._socket.send_bytes(frame)


def _tunnel_error(worker: Worker, instance: str, error: Exception) -> TpuctlError:
    place = f"{instance} through IAP"
    code = error.status if isinstance(error, aiohttp.WSServerHandshakeError) else None
    if isinstance(error, RelayClosedError):
        code = error.errno
        error = OSError(f"{error.strerror} ({code})")
    if code in NOT_AUTHORIZED:
        text = f"worker {worker.worker_id}: you may not reach {place}"
        return PermissionDeniedError(text, hint=GRANT_HINT)
    return unreachable_error(worker, place, error)
