"""What a controller asks of the Cloud TPU API: not too often, and not waited for for ever."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tpuctl.errors import TransientError

REPEAT_AFTER_S = 1.0
"""What has not shown its effect is asked for again no sooner than this."""
ANSWER_TIMEOUT_S = 20.0
"""For one answer: the client would try for minutes, with calls that may hang."""
ANSWER_OF_MANY_TIMEOUT_S = 3.0
"""The same where requests in several zones wait for one another."""
T = TypeVar("T")


@dataclass(slots=True)
class PendingCalls:
    """When each change was last asked for, and the calls that have not answered yet."""

    monotonic: Callable[[], float]
    asked: dict[str, float] = field(default_factory=dict)
    late: dict[str, asyncio.Task[Any]] = field(default_factory=dict)
    has_many: bool = False
    """Several zones are asked side by side."""

    def is_due(self, what: str) -> bool:
        """Whether a call of that name was not made just now; notes that it is made."""
        now = self.monotonic()
        if now - self.asked.get(what, -REPEAT_AFTER_S) < REPEAT_AFTER_S:
            return False
        self.asked[what] = now
        return True

    def postpone(self, what: str, seconds: float) -> None:
        """Let a call of that name be due no sooner than in so many seconds."""
        self.asked[what] = self.monotonic() + seconds - REPEAT_AFTER_S

    async def answer(self, what: str, ask: Callable[[], T]) -> T:
        """The result of `ask`, run in a thread; a late call is not made a second time.

        Raises TransientError while it is late, and whatever `ask` raises.
        """
        timeout_s = ANSWER_OF_MANY_TIMEOUT_S if self.has_many else ANSWER_TIMEOUT_S
        asking: asyncio.Task[T] | None = self.late.pop(what, None)
        if asking is None:
            asking = asyncio.create_task(asyncio.to_thread(ask))
            asking.add_done_callback(_consume_error)
            await asyncio.wait({asking}, timeout=timeout_s)
        if asking.done():
            return asking.result()
        self.late[what] = asking
        raise TransientError(f"the Cloud TPU API has not answered for {timeout_s:.0f} s")


def _consume_error(asking: asyncio.Task[Any]) -> None:
    """An error that comes when nobody waits any more is nobody's."""
    if not asking.cancelled():
        asking.exception()
