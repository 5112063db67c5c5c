"""A universe whose clock jumps to what happens next, and machines in it that can stop and die.

Every machine has an event loop of its own; work that it gives to a thread runs only while the
machine's loop waits for it, so a history is the same each time. What a machine asks of the outside
takes time, and it may stop or die between the asking, the effect and the answer.
"""

import asyncio
import heapq
import itertools
import random
import selectors
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from soak.checkpoints.strands import Outcome, Strand
from tpuctl.errors import TransientError

EPOCH_S = 1_800_000_000.0
Process = Generator["float | Signal", None, None]


class Universe:
    """The one clock, and what is going to happen."""

    def __init__(self, seed: int) -> None:
        self.now_s = 0.0
        self.draws = random.Random(seed)
        self.machines: list[Machine] = []
        self._coming: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()

    def after(self, delay_s: float, happens: Callable[[], object]) -> None:
        """Let something happen later."""
        when_s = self.now_s + max(0.0, delay_s)
        heapq.heappush(self._coming, (when_s, next(self._order), happens))

    def spawn(self, process: Process, lives: Callable[[], bool] = lambda: True) -> None:
        """Run a process of its own: it yields how long it sleeps, or what it waits for."""

        def step() -> None:
            if not lives():
                process.close()
                return
            for wanted in process:
                if isinstance(wanted, Signal):
                    wanted.waiting.append(lambda: self.after(0.0, step))
                else:
                    self.after(wanted, step)
                return

        self.after(0.0, step)

    def run(self, until: Callable[[], bool], limit_s: float) -> bool:
        """Let time pass until something is so; False when the limit (a moment) came first."""
        while True:
            self._let_machines_run()
            if until():
                return True
            if not self._pass_time(limit_s):
                return False

    def _let_machines_run(self) -> None:
        for machine in self.machines:
            if machine.is_going:
                machine.run_until_idle()

    def _pass_time(self, limit_s: float) -> bool:
        going = [machine for machine in self.machines if machine.is_going]
        due_s = min((machine.wakes_s for machine in going), default=limit_s)
        due_s = min(due_s, self._coming[0][0] if self._coming else limit_s)
        if due_s >= limit_s:
            self.now_s = limit_s
            return False
        self.now_s = max(self.now_s, due_s)
        while self._coming and self._coming[0][0] <= self.now_s:
            heapq.heappop(self._coming)[2]()
        return True


class Signal:
    """Something that processes wait for."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], object]] = []

    def fire(self) -> None:
        waiting, self.waiting = self.waiting, []
        for wake in waiting:
            wake()


class Machine:
    """One computer: an event loop, its wall clock, and its way to the outside."""

    def __init__(self, universe: Universe, name: str) -> None:
        self.universe = universe
        self.name = name
        self.wall_offset_s = 0.0
        self.is_dead = self.is_over = False
        self.frozen = 0
        self.asked = 0
        self.cuts: dict[int, Callable[[], object]] = {}
        """What happens right before the n-th question to the outside is sent."""
        self.late_cuts: dict[int, Callable[[], object]] = {}
        """What happens right after it took effect, before it is answered."""
        self.failing: dict[int, bool] = {}
        """The questions that fail: with their effect, the answer being lost, or without."""
        self.wakes_s = 0.0
        self.strands: set[Strand] = set()
        self._inbox: deque[Callable[[], object]] = deque()
        self.loop = Loop(self)
        universe.machines.append(self)

    @property
    def is_going(self) -> bool:
        return not self.is_dead and not self.frozen

    def wall_s(self) -> float:
        return EPOCH_S + self.universe.now_s + self.wall_offset_s

    def monotonic_s(self) -> float:
        return self.universe.now_s + 1000.0

    def run_until_idle(self) -> None:
        if self.wakes_s <= self.universe.now_s:
            self.loop.run_forever()  # the selector stops it

    def die(self) -> None:
        """As by SIGKILL, or a laptop's lid: nothing of it ever runs again."""
        self.is_dead = True

    def stop_for(self, pause_s: float) -> None:
        """As by SIGSTOP and SIGCONT: what comes meanwhile waits."""
        self.frozen += 1
        self.universe.after(pause_s, self._continue)

    def _continue(self) -> None:
        self.frozen -= 1
        self.deliver(lambda: None)
        while self._inbox and self.is_going:
            self.deliver(self._inbox.popleft())

    def deliver(self, happens: Callable[[], object]) -> None:
        """Something reaches the machine; it waits there while the machine is stopped."""
        if self.is_dead:
            return
        if self.frozen:
            self._inbox.append(happens)
            return
        self.wakes_s = self.universe.now_s
        happens()

    def ask(self, effect: Callable[[], Any], latency_s: float = 0.02) -> Any:
        """A call of the outside from a thread of this machine: it blocks that thread."""
        strand: Strand = Strand.here.current
        self.check()
        self._ask(effect, latency_s, lambda outcome: strand.resume(outcome))
        return strand.suspend()

    async def ask_soon(self, effect: Callable[[], Any], latency_s: float = 0.02) -> Any:
        """The same from a coroutine."""
        self.check()
        future: asyncio.Future[Any] = self.loop.create_future()

        def answered(outcome: "Outcome") -> None:
            if not future.done():
                outcome.into(future)

        self._ask(effect, latency_s, answered)
        return await future

    def _ask(
        self, effect: Callable[[], Any], latency_s: float, then: Callable[["Outcome"], None]
    ) -> None:
        half_s = latency_s * self.universe.draws.uniform(0.25, 0.75)

        number, self.asked = self.asked, self.asked + 1

        def take_effect() -> None:
            outcome = self._failed(number, effect) or Outcome.of(effect)
            if number in self.late_cuts:
                self.late_cuts.pop(number)()
            delay_s = outcome.stall_s + half_s
            self.universe.after(delay_s, lambda: self.deliver(lambda: then(outcome)))

        if number in self.cuts:
            self.cuts.pop(number)()
        # Not sent yet when the machine stops just now: it is sent when the machine goes on.
        self.deliver(lambda: self.universe.after(half_s, take_effect))

    def _failed(self, number: int, effect: Callable[[], Any]) -> "Outcome | None":
        if number not in self.failing:
            return None
        if self.failing.pop(number):
            Outcome.of(effect)
        return Outcome(error=TransientError("no answer"))

    def check(self) -> None:
        if self.is_over:
            raise TransientError("the history is over")

    def bury(self) -> None:
        """End everything that still runs here; the outside does not hear of it."""
        self.is_over, self.is_dead = True, False
        self.frozen = 0
        for strand in list(self.strands):
            strand.resume(Outcome(error=TransientError("the history is over")))
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()


class Loop(asyncio.SelectorEventLoop):
    """An event loop on the universe's clock; work for threads is done in strands."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        super().__init__(_Nothing(machine))
        self._selector._loop = self

    def time(self) -> float:
        return self._machine.universe.now_s

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = self.create_future()

        def done(outcome: Outcome) -> None:
            if not future.done():
                outcome.into(future)

        Strand.begin(self._machine, lambda: func(*args), done)
        return future


class _Nothing(selectors.BaseSelector):
    """No file is ever ready: when nothing else is either, the loop is idle."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._files: dict[Any, selectors.SelectorKey] = {}
        self._loop: Loop

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        self._files[fileobj] = selectors.SelectorKey(fileobj, 0, events, data)
        return self._files[fileobj]

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._files.pop(fileobj)

    def get_map(self) -> dict[Any, selectors.SelectorKey]:
        return self._files

    def select(self, timeout: float | None = None) -> list[Any]:
        machine = self._machine
        if timeout is not None and timeout <= 0:
            if machine.frozen or machine.is_dead:
                self._loop.stop()
            return []
        if machine.is_over:  # an afterlife of its own: nobody else sees its time pass
            machine.universe.now_s += timeout or 0.0
            return []
        machine.wakes_s = float("inf") if timeout is None else machine.universe.now_s + timeout
        self._loop.stop()
        return []
