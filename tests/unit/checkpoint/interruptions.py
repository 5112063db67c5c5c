"""What may happen to one request of one worker, told in advance by its number."""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from tpuctl.errors import IntegrityError, OutcomeUnknownError, TransientError
from unit.checkpoint.memory_store import Killed, Request


class Interruption(NamedTuple):
    """`kind` befalls the `at`-th request from now on."""

    kind: str
    at: int


class Meddler:
    """Stands between one worker and the bucket."""

    def __init__(self) -> None:
        self.plan: Interruption | None = None
        self.count = 0
        self.is_struck = False
        self.is_dead = False
        self.is_paused = False
        self.on_pause: Callable[[], Any] = lambda: None
        self.late: list[Callable[[], Any]] = []
        """Requests that are still on their way, and whose sender has given up."""
        self._go_on = threading.Event()

    def arm(self, plan: Interruption | None) -> None:
        """Count from one again."""
        self.plan, self.count, self.is_struck = plan, 0, False

    def __call__(self, request: Request, effect: Callable[[], Any]) -> Any:
        if self.is_dead:
            raise Killed
        self.count += 1
        if self.plan is None or self.count != self.plan.at:
            return effect()
        self.is_struck = True
        return INTERRUPTIONS[self.plan.kind](self, request, effect)

    def wake(self) -> None:
        """A worker that stood still goes on."""
        self.is_paused = False
        self._go_on.set()

    def crash(self, request: Request, effect: Callable[[], Any]) -> Any:
        self.is_dead = True
        raise Killed

    def crash_after(self, request: Request, effect: Callable[[], Any]) -> Any:
        effect()
        return self.crash(request, effect)

    def pause(self, request: Request, effect: Callable[[], Any]) -> Any:
        self.is_paused = True
        self.on_pause()
        self._go_on.wait()
        self._go_on.clear()
        if self.is_dead:
            raise Killed
        return effect()

    def fail(self, request: Request, effect: Callable[[], Any]) -> Any:
        raise TransientError(f"{request.verb} {request.key}: 503")

    def lose_reply(self, request: Request, effect: Callable[[], Any]) -> Any:
        effect()
        raise OutcomeUnknownError(f"{request.verb} {request.key}: no answer")

    def delay(self, request: Request, effect: Callable[[], Any]) -> Any:
        if request.verb in ("put", "delete"):
            self.late.append(effect)
        raise OutcomeUnknownError(f"{request.verb} {request.key}: no answer")

    def garble(self, request: Request, effect: Callable[[], Any]) -> Any:
        found = effect()
        if request.verb == "get":  # the client of a bucket finds it by itself
            raise IntegrityError(f"{request.key} came damaged")
        if request.verb == "read" and found:
            return bytes([found[0] ^ 1]) + found[1:]
        return found


INTERRUPTIONS = {
    "crash": Meddler.crash,
    "crash after": Meddler.crash_after,
    "pause": Meddler.pause,
    "fail": Meddler.fail,
    "lose reply": Meddler.lose_reply,
    "delay": Meddler.delay,
    "garble": Meddler.garble,
}
