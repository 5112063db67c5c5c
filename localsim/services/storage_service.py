"""What every method of the storage service works with."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from localsim.cloud.objects import ObjectStore
from localsim.services.storage_commits import Commits
from localsim.services.storage_requests import Call
from localsim.services.storage_turns import Turns


@dataclass(frozen=True, slots=True)
class Service:
    """The store, and what orders the requests that change it."""

    objects: ObjectStore
    commits: Commits
    turns: Turns


Handler = Callable[[Service, Call], Awaitable[web.StreamResponse]]
