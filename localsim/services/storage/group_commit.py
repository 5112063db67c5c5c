"""Changes of the store that come at the same time become durable by one flush of the disk.

They are done on the loop, one after the other and each as a whole or not at all; the flush runs in
a thread of its own. What comes meanwhile is done after it, and shares the next one.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from localsim.cloud.objects.files.object_database import ObjectDatabase
from localsim.cloud.objects.storage_model import StorageError

T = TypeVar("T")

CROWD_WAIT_S = 0.001
"""How long a flush waits for as many as the last one was for: every flush costs as much as two
uploads, and those who have just been answered come again soon."""
MOST_TOGETHER = 64
"""So many changes keep the loop from everything else for some milliseconds."""


@dataclass(slots=True)
class _Asked:
    """A change somebody waits for, and what came of it."""

    action: Callable[[], Any]
    answer: "asyncio.Future[Any]"
    result: Any = None
    error: Exception | None = None

    def do(self) -> None:
        """Do it, and remember how it went."""
        try:
            self.result = self.action()
        except sqlite3.Error as error:
            self.error = _not_written(error)
        except Exception as error:  # noqa: BLE001 (whoever asked is told)
            self.error = error

    def tell(self, failure: Exception | None) -> None:
        """Say what came of it, or that nothing came of anything."""
        if self.answer.done():  # a client may have gone
            return
        error = failure or self.error
        if error is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(self.result)


class GroupCommit:
    """Answers nobody before what was done, and seen, is on disk."""

    def __init__(self, database: ObjectDatabase) -> None:
        self._database = database
        self._waiting: list[_Asked] = []
        self._task: asyncio.Task[None] | None = None
        self._crowd = 0
        self._gathered = asyncio.Event()
        self._flusher = ThreadPoolExecutor(1, "storage-commits")

    async def run(self, action: Callable[[], T]) -> T:
        """What `action`, a single change of the store, returns or raises once that is on disk.

        Raises 507, with nothing done, when the disk takes nothing.
        """
        asked = _Asked(action, asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        if len(self._waiting) >= self._crowd:
            self._gathered.set()
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        answer: T = await asked.answer
        return answer

    async def _work(self) -> None:
        try:
            while self._waiting:
                if self._crowd > 1:
                    await self._gather()
                batch = self._waiting[:MOST_TOGETHER]
                del self._waiting[:MOST_TOGETHER]
                failure = await self._do(batch)
                for asked in batch:
                    asked.tell(failure)
                self._crowd = len(batch)
                await asyncio.sleep(0)
        finally:
            self._task = None

    async def _gather(self) -> None:
        """Wait for as many as there were last, but not for long."""
        if len(self._waiting) < self._crowd:
            self._gathered.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._gathered.wait(), CROWD_WAIT_S)

    async def _do(self, batch: list[_Asked]) -> Exception | None:
        """Do all of them and flush; the error is what happened to the disk instead."""
        try:
            with self._database.batch():
                for asked in batch:
                    asked.do()
            if self._database.has_changed:
                loop = asyncio.get_running_loop()
                flush = loop.run_in_executor(self._flusher, self._database.commit)
                await asyncio.shield(flush)  # it ends, whoever stops waiting
            else:
                self._database.commit()
        except sqlite3.Error as error:
            return _not_written(error)
        except Exception as error:  # noqa: BLE001 (everybody is told)
            return error
        return None


def _not_written(error: sqlite3.Error) -> StorageError:
    return StorageError(507, "insufficientStorage", f"localsim cannot write: {error}")
