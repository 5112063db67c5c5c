"""What every method of the storage service works with."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from aiohttp import web

from localsim.cloud.objects.store import ObjectStore
from localsim.group_commit import GroupCommit
from localsim.services.storage.md5_cache import Md5Cache
from localsim.services.storage.upload_locks import UploadLocks
from localsim.services.storage.wire.json_requests import StorageCall
from localsim.services.storage.wire.request_faults import FaultSource


@dataclass(frozen=True, slots=True)
class StorageService:
    """The store, and what orders the requests that change it."""

    objects: ObjectStore
    commits: GroupCommit
    turns: UploadLocks
    faults: FaultSource = field(default_factory=FaultSource)
    md5s: Md5Cache = field(default_factory=Md5Cache)


Handler = Callable[[StorageService, StorageCall], Awaitable[web.StreamResponse]]


async def answer_call(
    service: StorageService, call: StorageCall, handler: Handler
) -> web.StreamResponse:
    """What the method answers, or what goes wrong on purpose instead, before, meanwhile or after.

    Raises StorageError, and ConnectionError where the client has lost its connection.
    """
    effects = service.faults.of(call.method, call.request)
    if effects is None:
        return await handler(service, call)
    await effects.before()
    return await effects.after(await handler(service, replace(call, effects=effects)))
