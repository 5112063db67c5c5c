"""The storage service: what every method of it works with."""

import asyncio
import base64
import dataclasses
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from aiohttp import web

from localsim.group_commit import GroupCommit
from localsim.rules.objects.access.hmac_keys import HmacKeys
from localsim.rules.objects.buckets.bucket_store import Buckets
from localsim.rules.objects.encryption.customer_keys import CustomerKey
from localsim.rules.objects.storage_model import StorageError, StoredObject
from localsim.rules.objects.store import ObjectKey, ObjectStore, OpenObject
from localsim.services.storage.admission import check_admission
from localsim.services.storage.body_process import BodyProcess
from localsim.services.storage.request_watch import RequestWatch
from localsim.services.storage.signing.signature_verifier import SignatureVerifier
from localsim.services.storage.wire.json_requests import StorageCall
from localsim.services.storage.wire.request_faults import FaultSource

Arguments = ParamSpec("Arguments")
Changed = TypeVar("Changed")


class UploadLocks:
    """One request at a time per upload session: a newcomer ends the one that waits for bytes.

    A client whose connection broke comes back before the server has noticed that the old one is
    dead.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._receiving: dict[str, asyncio.Task[None]] = {}

    @asynccontextmanager
    async def take(self, key: str) -> AsyncIterator[None]:
        """Hold the session alone, after interrupting the request that receives bytes for it."""
        earlier = self._receiving.pop(key, None)
        if earlier is not None:
            earlier.cancel()
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            yield

    async def receive(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`, which the next `take` of the session interrupts.

        Raises StorageError 503 then.
        """
        task = asyncio.create_task(work)
        self._receiving[key] = task
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            self._receiving.pop(key, None)
        if task.cancelled():
            raise StorageError(503, "backendError", "Another request continues this upload.")
        task.result()


MOST_BYTES = 256 * 1024 * 1024
"""Who describes a larger object does not want to wait for half a second and more."""
MOST_KNOWN = 10_000
_READ_BYTES = 1024 * 1024


class Md5Cache:
    """The MD5 of objects that were uploaded without one, calculated when somebody looks at them.

    An upload whose reply does not show the MD5 (its `fields` leave it out) does not wait for it. A
    listing does not show it then. It is not stored, since an ETag may be made of an MD5; the last
    ones are kept in memory by generation, which no other object ever has.
    """

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    async def shown(
        self, objects: ObjectStore, stored: StoredObject, customer: CustomerKey | None = None
    ) -> StoredObject:
        """The object with its MD5; a composite or very large one is returned as it is.

        So is one that another key than the given one encrypts.
        """
        if stored.md5 or stored.component_count or stored.size_bytes > MOST_BYTES:
            return stored
        md5 = self._known.get(stored.generation)
        if md5 is None:
            try:
                md5 = await self._calculate(objects, stored, customer)
            except (StorageError, OSError):  # it has just gone, or its key is not here
                return stored
        return dataclasses.replace(stored, md5=md5)

    async def _calculate(
        self, objects: ObjectStore, stored: StoredObject, customer: CustomerKey | None
    ) -> str:
        key = ObjectKey(stored.bucket, stored.name, stored.generation)
        with objects.open(key, customer=customer) as found:
            md5 = await asyncio.to_thread(_md5, found)
        while len(self._known) >= MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[stored.generation] = md5
        return md5


def _md5(found: OpenObject) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    for piece in found.pieces():
        if piece.file is None:
            digest.update(piece.data)
            continue
        piece.file.seek(piece.start)
        while data := piece.file.read(_READ_BYTES):
            digest.update(data)
    return base64.b64encode(digest.digest()).decode()


@dataclass(frozen=True, slots=True)
class StorageService:
    """The store, and what orders the requests that change it."""

    objects: ObjectStore
    commits: GroupCommit
    turns: UploadLocks
    faults: FaultSource = field(default_factory=FaultSource)
    md5s: Md5Cache = field(default_factory=Md5Cache)
    body_process: BodyProcess | None = None
    """Receives large bodies; without it the event loop does."""
    signatures: SignatureVerifier = field(kw_only=True)
    """Verifies who has signed a request."""
    watch: RequestWatch | None = None
    """Sees every request; without it nobody does."""

    @property
    def buckets(self) -> Buckets:
        """The buckets of the store."""
        return self.objects.buckets

    @property
    def hmac_keys(self) -> HmacKeys:
        """The keys of service accounts that sign requests."""
        return self.objects.hmac_keys

    async def commit(
        self,
        change: Callable[Arguments, Changed],
        *given: Arguments.args,
        **named: Arguments.kwargs,
    ) -> Changed:
        """Call a function that changes the store; return its result once that is on disk."""
        return await self.commits.run(lambda: change(*given, **named))


def open_service(
    objects: ObjectStore,
    faults: FaultSource | None = None,
    body_process: BodyProcess | None = None,
    watch: RequestWatch | None = None,
    signatures: SignatureVerifier | None = None,
) -> StorageService:
    """The service of a store, which every wire shares; use it on the thread that made the store.

    Without `faults` only that goes wrong which clients ask for through `/retry_test`. With a
    `body_process` large bodies leave the event loop to other requests. `watch` sees every request
    over HTTP. Without `signatures` those are known that are made with the HMAC keys of `objects`.
    """
    database = objects.database
    commits = GroupCommit(database.batch, database.commit, blocks=lambda: database.has_changed)
    return StorageService(
        objects,
        commits,
        UploadLocks(),
        faults or FaultSource(),
        body_process=body_process,
        watch=watch,
        signatures=signatures or SignatureVerifier(objects.hmac_keys),
    )


Handler = Callable[[StorageService, StorageCall], Awaitable[web.StreamResponse]]


async def answer_call(
    service: StorageService, call: StorageCall, handler: Handler
) -> web.StreamResponse:
    """Answer a call with its handler, and apply the faults that it meets.

    Raises StorageError, and ConnectionError where the client has lost its connection.
    """
    if service.buckets.conditional:
        check_admission(service.buckets.conditional, call)
    if service.watch is not None:
        call = replace(call, trace=await service.watch.begin(call))
    effects = service.faults.of(call.method, call.request)
    if effects is None:
        response = await handler(service, call)
    else:
        await effects.before()
        response = await handler(service, replace(call, effects=effects))
        response = await effects.after(response)
    await call.trace.finish(response)
    return response
