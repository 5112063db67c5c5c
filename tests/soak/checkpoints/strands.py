"""Threads that run only while somebody waits for them, so that nothing depends on the scheduler."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Protocol


class Home(Protocol):
    """Where strands belong."""

    strands: "set[Strand]"


class Outcome:
    """What came of a question: a value or an error, and how late."""

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self.value = value
        self.error = error
        self.stall_s = 0.0

    @classmethod
    def of(cls, effect: Callable[[], Any]) -> "Outcome":
        try:
            value = effect()
        except Exception as error:  # noqa: BLE001 (it is the answer)
            return cls(error=error)
        return value if isinstance(value, cls) else cls(value)

    def get(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value

    def into(self, future: "asyncio.Future[Any]") -> None:
        if self.error is not None:
            future.set_exception(self.error)
        else:
            future.set_result(self.value)


class Strand:
    """A thread that runs only while the machine's loop waits for it."""

    here = threading.local()
    idle: "list[Strand]" = []

    def __init__(self) -> None:
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._work: tuple[Home, Callable[[], Any], Callable[[Outcome], None]]
        self._outcome = Outcome()
        self._finished = False
        threading.Thread(target=self._live, daemon=True).start()

    @classmethod
    def begin(cls, machine: Home, work: Callable[[], Any], done: Callable[[Outcome], None]) -> None:
        strand = cls.idle.pop() if cls.idle else cls()
        strand._work = (machine, work, done)
        machine.strands.add(strand)
        strand.resume(Outcome())

    def resume(self, outcome: Outcome) -> None:
        """Let it run until it asks for something or has finished."""
        self._outcome = outcome
        self._go.release()
        self._back.acquire()
        if self._finished:
            machine, _, done = self._work
            machine.strands.discard(self)
            self._finished = False
            finished = self._outcome
            Strand.idle.append(self)
            done(finished)

    def suspend(self) -> Any:
        """Wait, in the strand itself, for what was asked."""
        self._back.release()
        self._go.acquire()
        return self._outcome.get()

    def _live(self) -> None:
        Strand.here.current = self
        while True:
            self._go.acquire()
            self._outcome = Outcome.of(self._work[1])
            self._finished = True
            self._back.release()
