"""Runs of a LineWorld: workers in threads, one of whose requests may be interrupted."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tpuctl.checkpoint import Checkpointer
from unit.checkpoint.interruptions import Interruption, Meddler
from unit.checkpoint.memory_store import MemoryStore, Request
from unit.checkpoint.read.line_world import Save, World, tree
from unit.checkpoint.taking_turns import Turns

TIMEOUT_S = 100.0


class Operation:
    """The same call on every worker of a run, each in a thread of its own."""

    def __init__(self, calls: list[Callable[[], Any]], meddlers: list[Meddler]) -> None:
        self.results: dict[int, Any] = {}
        self.errors: dict[int, BaseException] = {}
        self.turns = Turns(len(calls))
        self._meddlers = meddlers
        self._threads = [
            threading.Thread(target=self._run, args=(number, call), daemon=True)
            for number, call in enumerate(calls)
        ]

    def start(self) -> None:
        for number, thread in enumerate(self._threads):
            self._meddlers[number].on_pause = partial(self.turns.leave, number)
            thread.start()

    def wake(self) -> None:
        """Who stands still goes on."""
        for number, meddler in enumerate(self._meddlers):
            if meddler.is_paused:
                self.turns.join(number)
                meddler.wake()

    @property
    def is_over(self) -> bool:
        return len(self.results) + len(self.errors) == len(self._threads)

    def _run(self, number: int, call: Callable[[], Any]) -> None:
        self.turns.begin(number)
        try:
            self.results[number] = call()
        except BaseException as error:  # noqa: BLE001 (Killed too; the machine looks at it)
            self.errors[number] = error
        self.turns.leave(number)


@dataclass(repr=False)
class Training:
    """One run."""

    world: World
    fence: int
    worker_count: int
    meddlers: list[Meddler] = field(default_factory=list)
    workers: list[Checkpointer] = field(default_factory=list)
    saving: Save | None = None
    last_step: int = 0
    is_alive: bool = True
    failed: Save | None = None
    """The save that is to be tried again."""
    pending: Operation | None = None

    def __post_init__(self) -> None:
        for worker_id in range(self.worker_count):
            meddler = Meddler()
            store = MemoryStore(self.world.bucket, partial(self._around, meddler))
            self.meddlers.append(meddler)
            self.workers.append(
                Checkpointer(
                    store,
                    worker_id,
                    self.worker_count,
                    keep=self.world.keep,
                    fence=self.fence,
                    timeout_s=TIMEOUT_S,
                )
            )

    def __repr__(self) -> str:
        return f"run {self.fence} of {self.worker_count}"

    def restore(self, step: int | None, struck: tuple[int, Interruption] | None) -> Operation:
        return self._all([partial(worker.restore, step) for worker in self.workers], struck)

    def save(self, save: Save, struck: tuple[int, Interruption] | None) -> Operation:
        self.saving = save
        return self._all([partial(_save, worker, save) for worker in self.workers], struck)

    def wake(self) -> None:
        """Let who stands still go on, to the end."""
        if self.pending is not None:
            self._settle(self.pending, self.pending.wake)

    def bury(self) -> None:
        for meddler in self.meddlers:
            meddler.is_dead = True
        self.is_alive = False
        self.wake()

    def _settle(self, operation: Operation, go: Callable[[], None]) -> Operation:
        self.world.time.turns = operation.turns
        go()
        operation.turns.settle()
        self.pending = None if operation.is_over else operation
        self.world.look()
        return operation

    @property
    def is_struck(self) -> bool:
        return any(meddler.is_struck for meddler in self.meddlers)

    def _all(self, calls: list[Callable[[], Any]], struck: Any) -> Operation:
        for worker_id, meddler in enumerate(self.meddlers):
            meddler.arm(struck[1] if struck is not None and struck[0] == worker_id else None)
        operation = Operation(calls, self.meddlers)
        return self._settle(operation, operation.start)

    def _around(self, meddler: Meddler, request: Request, effect: Callable[[], Any]) -> Any:
        save = self.saving

        def noted() -> Any:
            done = effect()
            if request.verb == "put" and "/shard_" in request.key and save is not None:
                self.world.written[done.generation] = save
            return done

        return meddler(request, noted)


def _save(worker: Checkpointer, save: Save) -> None:
    worker.save(save.step, tree(save.number))
    # The clean-up goes on beside the next steps: here nothing else does.
    worker.close()
