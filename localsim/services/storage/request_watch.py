"""Watches the requests of Cloud Storage, where somebody wants to know of them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from aiohttp import web

from localsim.services.storage.wire.json_requests import StorageCall
from localsim.services.storage.wire.request_log import RequestLog
from localsim.services.storage.wire.request_trace import (
    NO_TRACE,
    TRACE,
    LoggedTrace,
    RequestTrace,
    UploadNumbers,
)

Address = tuple[str, int]
FindSender = Callable[[Address, Address], Awaitable[str]]
"""From the client's and the server's address of a connection to `NODE/WORKER`, or nothing."""


@dataclass(frozen=True, slots=True)
class RequestWatch:
    """Makes the trace of each request."""

    log: RequestLog
    find_sender: FindSender
    uploads: UploadNumbers = field(default_factory=UploadNumbers)
    _senders: WeakKeyDictionary[object, str] = field(default_factory=WeakKeyDictionary)
    """Connection -> who is at its other end."""

    async def begin(self, call: StorageCall) -> RequestTrace:
        """The trace of a request that begins."""
        row = self.log.begin(call.method, *target_of(call))
        row.caller = await self._sender(call.request)
        trace = LoggedTrace(row, self.uploads)
        call.request[TRACE] = trace
        return trace

    def end(self, request: web.Request, status: int) -> None:
        """Note the status of a request's answer; 0: the connection ended."""
        trace = request.get(TRACE, NO_TRACE)
        if isinstance(trace, LoggedTrace):
            self.log.end(trace.row, status if request.transport is not None else 0)

    async def _sender(self, request: web.Request) -> str:
        transport = request.transport
        if transport is None:
            return ""
        if transport not in self._senders:
            peer, own = (transport.get_extra_info(name) for name in ("peername", "sockname"))
            self._senders[transport] = await self.find_sender(peer[:2], own[:2])
        return self._senders[transport]


def target_of(call: StorageCall) -> tuple[str, str]:
    """Bucket and name of what a request is about, as far as its path and query say.

    Of a copy it is what is made, of a list the prefix.
    """
    names = call.names
    if "to_object" in names:
        return names.get("to_bucket", names["bucket"]), names["to_object"]
    spoken_of = "prefix" if call.method.endswith(".list") else "name"
    return names.get("bucket", ""), names.get("object") or call.query.get(spoken_of, "")
