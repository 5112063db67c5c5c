"""One request at a time per upload session: a newcomer ends the one that still waits for bytes.

A client whose connection broke comes back before the server has noticed that the old one is dead.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

from localsim.cloud.objects.storage_model import StorageError


class UploadLocks:
    """Who may write to which session."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._receiving: dict[str, asyncio.Task[None]] = {}

    @asynccontextmanager
    async def take(self, key: str) -> AsyncIterator[None]:
        """Hold the session alone, after interrupting whoever receives bytes for it."""
        earlier = self._receiving.pop(key, None)
        if earlier is not None:
            earlier.cancel()
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            yield

    async def receive(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        """Run work that the next one to take the session may interrupt."""
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
