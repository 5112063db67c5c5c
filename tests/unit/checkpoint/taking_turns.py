"""Workers of one run that take turns, so that the same story is told the same way each time.

One of them runs at a time, until it waits for another one; the time that they sleep passes at once.
"""

import threading

PATIENCE_S = 60.0
"""Longer than anything takes here: only a deadlock of the tests themselves lasts so long."""


class Turns:
    """Whose turn it is among the workers 0 to count-1 that go on."""

    def __init__(self, count: int) -> None:
        self._going = list(range(count))
        self._holder = 0
        self._changed = threading.Condition()

    def begin(self, worker_id: int) -> None:
        """Wait for the first turn."""
        with self._changed:
            self._await(lambda: self._holder == worker_id and worker_id in self._going)

    def others_first(self) -> None:
        """The worker whose turn it is lets each of the others have one."""
        with self._changed:
            worker_id = self._holder
            self._hand_on(worker_id)
            self._await(lambda: self._holder == worker_id)

    def leave(self, worker_id: int) -> None:
        """It has ended, or stands still."""
        with self._changed:
            if worker_id in self._going:
                self._hand_on(worker_id)
                self._going.remove(worker_id)
                self._changed.notify_all()

    def join(self, worker_id: int) -> None:
        """It goes on: nobody else does."""
        with self._changed:
            self._going.append(worker_id)
            self._holder = worker_id

    def settle(self) -> None:
        """Return when nobody goes on any more."""
        with self._changed:
            self._await(lambda: not self._going)

    def _hand_on(self, worker_id: int) -> None:
        index = self._going.index(worker_id)
        self._holder = self._going[(index + 1) % len(self._going)]
        self._changed.notify_all()

    def _await(self, condition) -> None:
        assert self._changed.wait_for(condition, PATIENCE_S), "nobody goes on"


class TurnsOfTime:
    """`time` for code that waits for others."""

    def __init__(self) -> None:
        self.turns = Turns(0)
        self._now_s = 0.0

    def monotonic(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        self._now_s += seconds
        self.turns.others_first()


def one_after_the_other(work, items, *, threads, niceness=0):
    """In place of in_parallel."""
    return [work(item) for item in items]
