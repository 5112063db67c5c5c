"""Group commit: changes that come at the same time become durable by one flush of the disk.

They are made on the event loop, one after the other and each as a whole or not at all. A flush that
blocks runs in a thread of its own. What comes meanwhile is done after it, and shares the next one.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

CROWD_WAIT_S = 0.001
"""How long a flush waits for as many as the last one was for: every flush costs as much as two
uploads, and those who have just been answered come again soon."""
MOST_TOGETHER = 64
"""So many changes keep the loop from everything else for some milliseconds."""


@dataclass(slots=True)
class _Call:
    """An action that somebody waits for, and its outcome."""

    action: Callable[[], Any]
    answer: "asyncio.Future[Any]"
    result: Any = None
    error: Exception | None = None

    def do(self) -> None:
        """Run the action and keep its result or error."""
        try:
            self.result = self.action()
        except Exception as error:  # noqa: BLE001 (whoever asked is told)
            self.error = error

    def reply(self, failure: Exception | None) -> None:
        """Give the caller its result or error, or the `failure` of the whole batch."""
        if self.answer.done():  # a client may have gone
            return
        error = failure or self.error
        if error is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(self.result)


class GroupCommit:
    """Runs actions in batches and answers nobody before the batch is on disk."""

    def __init__(
        self,
        batch: Callable[[], AbstractContextManager[None]],
        commit: Callable[[], object],
        *,
        blocks: Callable[[], bool] = lambda: False,
    ) -> None:
        """Use `batch()` around the actions, then `commit()` unless the batch raises.

        Where `blocks()` is true, `commit` is called in a thread.
        """
        self._batch = batch
        self._commit = commit
        self._blocks = blocks
        self._waiting: list[_Call] = []
        self._task: asyncio.Task[None] | None = None
        self._crowd = 0
        self._gathered = asyncio.Event()
        self._flusher = ThreadPoolExecutor(1, "group-commit")

    async def run(self, action: Callable[[], T]) -> T:
        """Return the result of `action`, a single change, or raise its error, once it is on disk.

        Raises what the batch or its commit raises, with nothing done, when the disk fails.
        """
        call = _Call(action, asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        if len(self._waiting) >= self._crowd:
            self._gathered.set()
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        answer: T = await call.answer
        return answer

    async def _work(self) -> None:
        try:
            while self._waiting:
                if self._crowd > 1:
                    await self._gather()
                calls = self._waiting[:MOST_TOGETHER]
                del self._waiting[:MOST_TOGETHER]
                failure = await self._do(calls)
                for call in calls:
                    call.reply(failure)
                self._crowd = len(calls)
                await asyncio.sleep(0)
        finally:
            self._task = None

    async def _gather(self) -> None:
        """Wait for as many calls as the last batch had, at most CROWD_WAIT_S."""
        if len(self._waiting) < self._crowd:
            self._gathered.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._gathered.wait(), CROWD_WAIT_S)

    async def _do(self, calls: list[_Call]) -> Exception | None:
        """Run all calls and commit; return the error of the disk, if any."""
        try:
            with self._batch():
                for call in calls:
                    call.do()
            if self._blocks():
                loop = asyncio.get_running_loop()
                flush = loop.run_in_executor(self._flusher, self._commit)
                await asyncio.shield(flush)  # it ends, whoever stops waiting
            else:
                self._commit()
        except Exception as error:  # noqa: BLE001 (everybody is told)
            return error
        return None
