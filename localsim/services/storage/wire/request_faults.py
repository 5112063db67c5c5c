"""Injected faults of one request of Cloud Storage: before, during and after it.

Nothing is counted before it happens: of two requests that wait for the same fault only the one that
comes to it first meets it.
"""

import asyncio
import errno
import math
import re
import socket
import struct
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from aiohttp import web

from localsim.rules.objects.files.durable_files import disk_errors
from localsim.rules.objects.storage_model import StorageError
from localsim.rules.scenario import fault_types as faults
from localsim.rules.scenario.fault_types import ArmedStorageFault
from localsim.services.storage.wire.retry_tests import HEADER, RetryTests

BLOCK_BYTES = 64 * 1024
POLL_S = 1.0
"""Real seconds between two looks at whether a client that waits in vain is still there."""
_REASONS = {400: "invalid", 401: "authError", 403: "forbidden", 429: "rateLimitExceeded"}
_UPLOADS = ("storage.objects.insert", "storage.multipartUploads.put")
_OF_DOWNLOADS = (faults.ConnectionCut, faults.TransferStall)
_OF_UPLOADS = (faults.LateRefusal, faults.ConnectionCut, faults.TransferStall, faults.DiskFull)
_FIRST_BYTE = re.compile(r"\s*bytes\s+(\d{1,18})-")
_NO_LINGER = struct.pack("ii", 1, 0)
Kind = TypeVar("Kind")

ArmedFaultsOf = Callable[[str], Sequence[ArmedStorageFault]]
"""What the scenario has in store for a call of a method."""
Pause = Callable[[float], Awaitable[None]]
"""Lets simulated seconds pass."""


def _injected_error(effect: faults.StorageRefusal | faults.LateRefusal) -> StorageError:
    """The error reply that a fault asks for."""
    return StorageError(
        effect.status,
        _REASONS.get(effect.status, "backendError"),
        f"Retry Test: Caused a {effect.status}",
        headers=None
        if effect.retry_after_s is None
        else {"Retry-After": str(effect.retry_after_s)},
    )


@dataclass(frozen=True, slots=True)
class FaultSource:
    """The source of faults: the scenario, and the tests that clients set up."""

    standing: ArmedFaultsOf = lambda _method: ()
    pause: Pause = asyncio.sleep
    retry_tests: RetryTests = field(default_factory=RetryTests)

    def of(self, method: str, request: web.Request) -> "CallFaults | None":
        """The faults of a call, or None; raises StorageError for an unknown retry test."""
        armed = [*self.standing(method)]
        test_id = request.headers.get(HEADER)
        if test_id is not None and not request.secure:
            armed += self.retry_tests.armed(test_id, method)
        return CallFaults(request, method, self.pause, armed) if armed else None


class CallFaults:
    """The faults that one request meets."""

    def __init__(
        self, request: web.Request, method: str, pause: Pause, armed: Sequence[ArmedStorageFault]
    ) -> None:
        """Nothing has happened yet."""
        self._request = request
        self._method = method
        self._pause = pause
        self._armed = list(armed)

    async def before(self) -> None:
        """Wait for the latencies, then raise the first refusal: StorageError or ConnectionError."""
        for armed, latency in self._of(faults.StorageLatency):
            if armed.strike():
                await self._stall(latency.time_s)
        for armed in self._armed:
            if isinstance(armed.effect, faults.ConnectionReset) and armed.strike():
                raise self._reset()
            if isinstance(armed.effect, faults.StorageRefusal) and armed.strike():
                raise _injected_error(armed.effect)
            if isinstance(armed.effect, faults.DiskFull) and self._only_writes and armed.strike():
                await self._happen(armed.effect)

    async def received(self, chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        """The bytes of an upload; raises StorageError or ConnectionError as the faults ask."""
        match = _FIRST_BYTE.match(self._request.headers.get("Content-Range", ""))
        async for block in self._paced(chunks, _OF_UPLOADS, int(match[1]) if match else 0):
            yield block

    async def send(self, response: web.StreamResponse, blocks: AsyncIterable[bytes]) -> None:
        """Write the bytes of an object to a prepared response; raises ConnectionError."""
        corrupt = [each for each, _ in self._of(faults.Corruption)]
        async for block in self._paced(blocks, _OF_DOWNLOADS, 0):
            is_corrupt = any([each.strike() for each in corrupt])
            await response.write(_one_bit_off(block) if is_corrupt else block)
            corrupt = []

    async def _paced(
        self, chunks: AsyncIterable[bytes], kinds: tuple[type, ...], position: int
    ) -> AsyncIterator[bytes]:
        """The bytes of a body, of which `position` came earlier, with what happens among them."""
        waiting = [each for each in self._armed if isinstance(each.effect, kinds)]
        limits = [limit for armed, limit in self._of(faults.BandwidthLimit) if armed.strike()]
        bytes_per_s = min((limit.bytes_per_s for limit in limits), default=math.inf)
        await self._pass(waiting, position)
        async for data in chunks:
            rest = memoryview(data)
            while rest:
                next_fault = min(map(_position, waiting), default=math.inf)
                size_bytes = int(min(len(rest), BLOCK_BYTES, next_fault - position))
                await self._stall(size_bytes / bytes_per_s)
                yield bytes(rest[:size_bytes])
                rest, position = rest[size_bytes:], position + size_bytes
                await self._pass(waiting, position)

    async def after(self, response: web.StreamResponse) -> web.StreamResponse:
        """The reply, or a part of it and then the end of the connection: ConnectionError."""
        if not isinstance(response, web.Response) or not isinstance(response.body, bytes):
            return response  # an object, which has been sent
        for armed in self._armed:
            reply_bytes = self._let_through(armed, response)
            if reply_bytes is not None and armed.strike():
                raise await self._broken(response, reply_bytes)
        return response

    def _let_through(self, each: ArmedStorageFault, response: web.Response) -> int | None:
        """How many bytes of the reply are sent; None for all."""
        size_bytes = len(response.body) if isinstance(response.body, bytes) else 0
        match each.effect:
            case faults.LostReply(after_bytes):
                is_last = response.status == 200 and "upload_id" in self._request.query  # noqa: PLR2004
                is_last = is_last and "X-HTTP-Status-Code-Override" not in response.headers
                return min(after_bytes, size_bytes) if is_last else None
            case faults.ConnectionCut(after_bytes) if (
                after_bytes <= size_bytes and self._method not in _UPLOADS
            ):
                return None if self._request.method == "HEAD" else after_bytes
        return None

    async def _broken(self, response: web.Response, reply_bytes: int) -> ConnectionError:
        body = response.body if isinstance(response.body, bytes) else b""
        headers = {**response.headers, "Content-Length": str(len(body))}
        begun = web.StreamResponse(status=response.status, headers=headers)
        await begun.prepare(self._request)
        await begun.write(body[:reply_bytes])
        return self._closed()

    @property
    def _only_writes(self) -> bool:
        """Whether the request changes the store without a body of its own."""
        return self._request.method not in ("GET", "HEAD") and self._method not in _UPLOADS

    def _of(self, kind: type[Kind]) -> list[tuple[ArmedStorageFault, Kind]]:
        return [(each, each.effect) for each in self._armed if isinstance(each.effect, kind)]

    async def _pass(self, waiting: list[ArmedStorageFault], position: int) -> None:
        """Apply the faults that wait for a position in the body, each once."""
        for armed in [armed for armed in waiting if _position(armed) <= position]:
            waiting.remove(armed)
            if armed.strike():
                await self._happen(armed.effect)

    async def _happen(self, effect: object) -> None:
        match effect:
            case faults.LateRefusal():
                raise _injected_error(effect)
            case faults.TransferStall(time_s):
                await self._stall(time_s)
            case faults.DiskFull():
                with disk_errors():
                    raise OSError(errno.ENOSPC, "a fault fills the disk")
            case faults.ConnectionCut():
                raise self._closed()

    async def _stall(self, seconds: float) -> None:
        """Let time pass; raises ConnectionError when the client has gone meanwhile."""
        if not seconds:
            return
        pause = asyncio.ensure_future(self._pause(seconds))
        try:
            while not pause.done():
                await asyncio.wait({pause}, timeout=POLL_S)
                if self._request.transport is None:
                    raise ConnectionResetError("the client has gone")
        finally:
            pause.cancel()

    def _reset(self) -> ConnectionError:
        """Drop the connection so that the client is told: RST."""
        transport = self._request.transport
        if transport is not None:
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            transport.abort()
        return ConnectionResetError("reset on purpose")

    def _closed(self) -> ConnectionError:
        """End the connection behind what has been written."""
        if self._request.transport is not None:
            self._request.transport.close()
        return ConnectionResetError("cut on purpose")


def _position(armed: ArmedStorageFault) -> int:
    effect = armed.effect
    return effect.after_bytes if isinstance(effect, _OF_UPLOADS) else 0


def _one_bit_off(block: bytes) -> bytes:
    middle = len(block) // 2
    return block[:middle] + bytes([block[middle] ^ 1]) + block[middle + 1 :]
