"""Watches the requests of Cloud Storage, where somebody wants to know of them or to hold them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from aiohttp import web

from localsim.rules.objects.storage_model import StoredObject
from localsim.rules.scenario.timeline_types import RequestVerb
from localsim.services.storage.request_holds import HeldEntry, RequestHolds
from localsim.services.storage.wire.json_requests import StorageCall
from localsim.services.storage.wire.request_log import LoggedRequest, RequestLog
from localsim.services.storage.wire.request_trace import NO_TRACE, RequestTrace

Address = tuple[str, int]
FindSender = Callable[[Address, Address], Awaitable[str]]
"""From the client's and the server's address of a connection to `NODE/WORKER`, or nothing."""
TRACE = "storage.trace"
"""Where a request carries its trace."""
_MOST_SUCCESSFUL = 299
_VERBS = {
    "storage.objects.list": RequestVerb.LIST,
    "storage.objects.delete": RequestVerb.DELETE,
    **{
        f"storage.objects.{name}": RequestVerb.COPY
        for name in ("compose", "copy", "move", "restore", "rewrite")
    },
}
"""The methods that are what their name says; of the others their handlers say it."""


@dataclass(slots=True)
class OpenUpload:
    """An upload of several requests."""

    number: int
    """That of its first request."""
    name: str
    """Of its object."""
    received_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RequestWatch:
    """Makes the trace of each request."""

    log: RequestLog | None
    holds: RequestHolds
    find_sender: FindSender
    uploads: dict[str, OpenUpload] = field(default_factory=dict)
    _senders: WeakKeyDictionary[object, str] = field(default_factory=WeakKeyDictionary)
    """Connection -> who is at its other end."""

    async def begin(self, call: StorageCall) -> RequestTrace:
        """The trace of a request that begins, after the moment before it."""
        if self.log is None and not self.holds.are_wanted:
            return NO_TRACE
        bucket, name = target_of(call)
        if self.log is None:
            row = LoggedRequest(0, call.method, bucket, name, 0.0)
        else:
            row = self.log.begin(call.method, bucket, name)
        trace = WatchedTrace(row, call.request, self)
        call.request[TRACE] = trace
        row.caller = await self._sender(call.request)
        if call.method in _VERBS and not call.query.get("rewriteToken"):
            await trace.begin(_VERBS[call.method], None)
        return trace

    def end(self, request: web.Request, status: int) -> None:
        """Note the status of a request's answer; 0: the connection ended."""
        trace = request.get(TRACE)
        if not isinstance(trace, WatchedTrace):
            return
        given = status if request.transport is not None else 0
        if not trace.upload_id or not 0 < given < 400:  # noqa: PLR2004 (an upload that goes on)
            self.holds.release(trace.key)
        if self.log is not None:
            self.log.end(trace.row, given)

    def clear(self) -> None:
        """Forget every request."""
        self.uploads.clear()
        self.holds.clear()
        if self.log is not None:
            self.log.clear()

    async def _sender(self, request: web.Request) -> str:
        transport = request.transport
        if transport is None:
            return ""
        if transport not in self._senders:
            peer, own = (transport.get_extra_info(name) for name in ("peername", "sockname"))
            self._senders[transport] = await self.find_sender(peer[:2], own[:2])
        return self._senders[transport]


class WatchedTrace(RequestTrace):
    """The trace of a request that is logged, or held where a timeline says so."""

    def __init__(self, row: LoggedRequest, request: web.Request, watch: RequestWatch) -> None:
        """`row` is changed as the request goes on."""
        self.row = row
        self.upload_id = ""
        self._request = request
        self._holds = watch.holds
        self._uploads = watch.uploads
        self._verb: RequestVerb | None = None
        self._held: list[HeldEntry] = []
        self._position = 0
        self._total_bytes: int | None = None

    @property
    def key(self) -> object:
        """What its entries are held by: the upload, or this request."""
        return self.upload_id or self

    @property
    def needs_bytes(self) -> bool:
        """Whether a moment lies within the body."""
        return bool(self._held)

    async def begin(
        self, verb: RequestVerb, total_bytes: int | None, name: str = "", position: int = 0
    ) -> None:
        """Count the request, and hold it at the moment before it."""
        self.row.object = name or self.row.object
        self._verb, self._total_bytes, self._position = verb, total_bytes, position
        held = await self._holds.begin(verb, self._target, self.row.caller, self.key)
        self._held = list(held)
        await self._reach()

    async def begin_upload(
        self,
        name: str,
        *,
        total_bytes: int | None,
        upload_id: str = "",
        position: int | None = 0,
    ) -> None:
        """Count the upload, and hold it before anything of it is read."""
        self.note_session(upload_id, name)
        if position is None:
            position = self._uploads[upload_id].received_bytes
        await self.begin(RequestVerb.UPLOAD, total_bytes, name, position)

    async def begin_download(self, total_bytes: int | None) -> None:
        """Count the download, and hold it before anything of it is sent."""
        await self.begin(RequestVerb.DOWNLOAD, total_bytes)

    async def begin_copy(self) -> None:
        """Count the copy, and hold it before it is made."""
        await self.begin(RequestVerb.COPY, None)

    def note_session(self, upload_id: str, name: str) -> None:
        """Note the object's name and, where there is one, the upload's first request."""
        self.row.object = name or self.row.object
        if upload_id:
            self.upload_id = upload_id
            opened = OpenUpload(self.row.number, self.row.object)
            upload = self._uploads.setdefault(upload_id, opened)
            self.row.upload, self.row.object = upload.number, self.row.object or upload.name

    def note_object(self, stored: StoredObject) -> None:
        """Note the generation."""
        self.row.generation = stored.generation

    async def received(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Count the bytes, and hold the request among them."""
        async for chunk in chunks:
            await self.pass_bytes(len(chunk))
            yield chunk
        if not self.upload_id:
            await self.end_body()

    async def pass_bytes(self, size_bytes: int) -> None:
        """Count the bytes, and hold the request when its moment has come."""
        self.row.body_bytes += size_bytes
        self._position += size_bytes
        if self.upload_id in self._uploads:
            self._uploads[self.upload_id].received_bytes += size_bytes
        await self._reach()

    async def end_body(self) -> None:
        """Hold the request for what waited for more of the body than there is."""
        await self._fire(self._held)

    async def finish(self, response: web.StreamResponse) -> None:
        """Hold the answer."""
        if self._verb is None and self.row.generation:
            self._verb = RequestVerb.UPLOAD
        if self._verb is None or response.status > _MOST_SUCCESSFUL:
            return
        if self._verb in (RequestVerb.UPLOAD, RequestVerb.COPY) and not self.row.generation:
            return  # it goes on with another request
        for name in await self._holds.end(self._verb, self._target, self.row.caller):
            await self._holds.fire(name, self.row.number)
        self._require_sender()

    @property
    def _target(self) -> str:
        return f"{self.row.bucket}/{self.row.object}"

    async def _reach(self) -> None:
        reached = [
            each for each in self._held if each.is_reached(self._position, self._total_bytes)
        ]
        await self._fire(reached)

    async def _fire(self, entries: Sequence[HeldEntry]) -> None:
        for entry in tuple(entries):
            self._held.remove(entry)
            await self._holds.fire(entry.name, self.row.number)
            self._require_sender()

    def _require_sender(self) -> None:
        """Raise ConnectionResetError when the worker that sent the request is not there any more.

        What it has sent may all have arrived: its death is to be before that.
        """
        if self.row.caller and not self._holds.is_up(self.row.caller):
            if self._request.transport is not None:
                self._request.transport.abort()
            raise ConnectionResetError("the worker has gone")


def target_of(call: StorageCall) -> tuple[str, str]:
    """Bucket and name of what a request is about, as far as its path and query say.

    Of a copy it is what is made, of a list the prefix.
    """
    names = call.names
    if "to_object" in names:
        return names.get("to_bucket", names["bucket"]), names["to_object"]
    spoken_of = "prefix" if call.method.endswith(".list") else "name"
    return names.get("bucket", ""), names.get("object") or call.query.get(spoken_of, "")
