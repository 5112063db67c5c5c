"""Deletes for good what is soft-deleted, when the simulated cloud's clock says so."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from aiohttp import web

from localsim.clock import Clock
from localsim.rules.objects.storage_model import StorageError
from localsim.services.storage.service import StorageService

_LOOKS_S = 86400.0
"""What is soft-deleted from now on stays for a week at least."""
_PAUSE_S = 60.0
"""So long, in simulated seconds, a failed deletion waits: the disk may be full."""


def hard_deletions(service: StorageService) -> Callable[[web.Application], AsyncIterator[None]]:
    """A cleanup context of the application in which what is due is deleted."""

    async def run(_: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(_delete_when_due(service, service.objects.clock))
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    return run


async def _delete_when_due(service: StorageService, clock: Clock) -> None:
    while True:
        due_s = service.objects.next_hard_deletion_s()
        if due_s is None or due_s > clock.now():
            await clock.sleep_until(min(due_s or clock.now() + _LOOKS_S, clock.now() + _LOOKS_S))
            continue
        try:
            await service.commit(service.objects.hard_delete)
        except StorageError:
            await clock.sleep_until(clock.now() + _PAUSE_S)
