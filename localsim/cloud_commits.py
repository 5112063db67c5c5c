"""Calls of the cloud that come at the same time become durable by one flush of the disk."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

from localsim.cloud.cloud import Cloud

T = TypeVar("T")

CROWD_GAP_S = 0.0003
"""A call that comes sooner than this after a flush of the disk is not the only one under way."""
CROWD_WAIT_S = 0.001
"""How long a flush waits for the others when the last one was for several."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What an action returned or raised."""

    result: Any = None
    error: Exception | None = None

    def get(self) -> Any:
        """Return or raise the same."""
        if self.error is not None:
            raise self.error
        return self.result


class CloudCommits:
    """Answers nobody before what was done, and seen, is on disk."""

    def __init__(self, cloud: Cloud, then: Callable[[], None]) -> None:
        """`then` is called after every flush, when everybody has been answered."""
        self._cloud = cloud
        self._then = then
        self._batch: ExitStack | None = None
        self._waiting: list[tuple[asyncio.Future[Any], _Outcome]] = []
        self._flushed_s = 0.0
        self._was_crowded = False

    async def run(self, action: Callable[[Cloud], T]) -> T:
        """What `action` returns or raises; raises NotWrittenError when the disk takes nothing."""
        if self._batch is None:
            self._batch = ExitStack()
            self._batch.enter_context(self._cloud.batch())
        outcome = self._outcome(action)
        if not self._cloud.is_written:
            outcome = await self._flush_of(outcome)
        else:
            self._flush()
        answer: T = outcome.get()
        return answer

    def _outcome(self, action: Callable[[Cloud], Any]) -> _Outcome:
        try:
            self._cloud.catch_up()
            with self._cloud.batch():
                outcome = _Outcome(action(self._cloud))
            self._cloud.catch_up()
        except Exception as error:  # noqa: BLE001 (whoever asked is told)
            return _Outcome(error=error)
        return outcome

    async def _flush_of(self, outcome: _Outcome) -> _Outcome:
        """The outcome once it is on disk."""
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        self._waiting.append((answer, outcome))
        if len(self._waiting) == 1:
            is_crowded = self._was_crowded or loop.time() - self._flushed_s < CROWD_GAP_S
            loop.call_later(CROWD_WAIT_S if is_crowded else 0.0, self._flush)
        found: _Outcome = await answer
        return found

    def _flush(self) -> None:
        """Make everything that was done durable at once, then answer and let the rest follow."""
        batch, self._batch = self._batch, None
        waiting, self._waiting = self._waiting, []
        failure = None
        try:
            if batch is not None:
                batch.close()
        except Exception as error:  # noqa: BLE001 (whoever asked is told)
            failure = _Outcome(error=error)
        for answer, outcome in waiting:
            if not answer.done():  # a client may have gone
                answer.set_result(failure or outcome)
        self._then()
        self._was_crowded = len(waiting) > 1
        self._flushed_s = asyncio.get_running_loop().time()
