"""What every method of the storage service works with."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from aiohttp import web

from localsim.cloud.objects.store import ObjectStore
from localsim.services.storage.commits import Commits
from localsim.services.storage.md5 import Md5s
from localsim.services.storage.turns import Turns
from localsim.services.storage.wire.faults import Faults
from localsim.services.storage.wire.requests import Call


@dataclass(frozen=True, slots=True)
class Service:
    """The store, and what orders the requests that change it."""

    objects: ObjectStore
    commits: Commits
    turns: Turns
    faults: Faults = field(default_factory=Faults)
    md5s: Md5s = field(default_factory=Md5s)


Handler = Callable[[Service, Call], Awaitable[web.StreamResponse]]


async def answered(service: Service, call: Call, handler: Handler) -> web.StreamResponse:
    """What the method answers, or what goes wrong on purpose instead, before, meanwhile or after.

    Raises StorageError, and ConnectionError where the client has lost its connection.
    """
    effects = service.faults.of(call.method, call.request)
    if effects is None:
        return await handler(service, call)
    await effects.before()
    return await effects.after(await handler(service, replace(call, effects=effects)))
