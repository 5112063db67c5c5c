"""Wait for what the API does, and tell what changes meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from tpuctl.api.tpu.explain import error_for
from tpuctl.api.tpu.hints import CallSubject
from tpuctl.errors import DeadlineError, NotFoundError
from tpuctl.models.node import Node
from tpuctl.models.operation import Operation
from tpuctl.models.queued_resource import QueuedResource

if TYPE_CHECKING:
    from tpuctl.api.tpu.tpu import TpuApi

FIRST_POLL_S = 0.1
LAST_POLL_S = 2.0
GROWTH = 1.3
"""Google's own 1 s growing to 20 s adds six seconds to a slice that takes thirty."""


Stateful = TypeVar("Stateful", Node, QueuedResource)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, and the clock to wait by."""

    limit_s: float | None = None
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic

    def polls(self, subject: Callable[[], str]) -> Iterator[None]:
        """Yield at growing intervals; raises DeadlineError at the time limit."""
        started, pause_s = self.monotonic(), FIRST_POLL_S
        while True:
            yield
            if self.limit_s is not None and self.monotonic() - started + pause_s > self.limit_s:
                raise DeadlineError(f"{subject()} after {self.limit_s:.0f} s; the work goes on")
            self.sleep(pause_s)
            pause_s = min(LAST_POLL_S, pause_s * GROWTH)


def wait_for_operation(
    api: TpuApi, operation: Operation, patience: Patience, *, about: CallSubject | str
) -> None:
    """Return when the operation succeeded; raises its error, explained, or DeadlineError."""
    asked = CallSubject(about) if isinstance(about, str) else about
    for _ in patience.polls(lambda: f"{asked.subject} is not done"):
        if operation.done:
            break
        operation = api.get_operation(operation.name)
    if operation.error:
        raise error_for(operation.error, asked)


def wait_until_gone(
    read: Callable[[], Node | QueuedResource], patience: Patience, subject: str
) -> None:
    """Return when there is nothing to read any more; raises DeadlineError, naming the subject."""
    for _ in patience.polls(lambda: f"{subject} is not done"):
        try:
            read()
        except NotFoundError:
            return


def watch_states(
    read: Callable[[], Stateful], until: Collection[str], patience: Patience, subject: str
) -> Iterator[Stateful]:
    """Read a node or queued resource, and yield it at every change until its state is in `until`.

    Raises DeadlineError, which names the `subject`.
    """
    last = ""
    for _ in patience.polls(lambda: f"{subject} is still {read().state}"):
        item = read()
        if item.state != last:
            last = item.state
            yield item
        if item.state in until:
            return
