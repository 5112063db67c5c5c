"""The program of a history: it uses each step's data once, and saves where it stands.

The workers step together: when one is missing, the others cannot go on, and give up after a while.
A digest over the steps tells at the end whether each was used as an uninterrupted run uses it.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from soak.checkpoints.fault_plan import Faults
from soak.checkpoints.strands import Outcome
from soak.jobs.world.job_agents import Agent
from soak.jobs.world.job_bucket import Bucket
from soak.jobs.world.virtual_time import Process, Signal, Universe
from tpuctl.errors import PreconditionError, TransientError

CHECKPOINTS = "runs/digits/"
GIVE_UP_S = 6.0
"""A program whose peer is gone ends with an error after this."""
SAVING_S = 0.4
CRASH, RETRY_ME = 1, 75


@dataclass(frozen=True)
class Program:
    """What the user wrote."""

    steps: int = 20
    save_every: int = 5
    step_s: float = 1.5
    crashes_at: int | None = None
    """A bug: worker 0 ends with status 1 at this step, each time."""
    fails_once_at: int | None = None
    """Worker 0 ends with status 75 at this step of the first attempt."""
    setup_fails: bool = False
    saves_on_term: bool = True
    ends_well_on_term: bool = False
    """Told to stop, it ends with status 0."""


def digest(steps: int) -> str:
    """What an uninterrupted run has after so many steps."""
    state = ""
    for step in range(1, steps + 1):
        state = _stepped(state, step)
    return state


def _stepped(state: str, step: int) -> str:
    return hashlib.blake2b(f"{state}{step}".encode(), digest_size=8).hexdigest()


@dataclass
class Trainings:
    """Every gang that ever ran, and what must not happen to them."""

    universe: Universe
    bucket: Bucket
    faults: Faults
    program: Program
    gangs: dict[int, "GangRun"] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    results: dict[int, str] = field(default_factory=dict)
    """The digest at the end of each attempt that came to its end."""

    def setup_status(self, agent: Agent) -> int:
        return CRASH if self.program.setup_fails else 0

    def traceback(self, code: int | None) -> str:
        return "ValueError: a bug" if code == CRASH else ""

    def start(self, agent: Agent) -> "Member":
        if agent.attempt not in self.gangs:
            size = int(agent.env["TPUCTL_WORKER_COUNT"])
            self.gangs[agent.attempt] = GangRun(self, agent.attempt, size)
        return self.gangs[agent.attempt].join(agent)

    def stepping(self, attempt: int, step: int) -> None:
        later = [n for n, gang in self.gangs.items() if n > attempt and gang.stepped]
        if later:
            self.wrong.append(f"step {step} of attempt {attempt} while attempt {later[0]} ran")

    def newest(self) -> tuple[int, str] | None:
        """The newest whole checkpoint; None when the bucket cannot be asked now."""
        found = self.call(lambda: self.bucket.list(CHECKPOINTS))
        if found is None:
            return None
        commits = sorted(each.key for each in found if each.key.endswith("/COMMIT"))
        if not commits:
            return 0, ""
        document = json.loads(self.bucket.get(commits[-1], 0, None, None))
        return document["step"], document["digest"]

    def call(self, effect: Callable[[], Any]) -> Any:
        try:
            found = self.faults.around("storage", effect)()
        except TransientError:
            return None
        return None if isinstance(found, Outcome) else found

    def put(self, key: str, data: bytes) -> bool:
        def create() -> bool:
            try:
                self.bucket.put(key, data, 0)
            except PreconditionError:
                return True
            return True

        return bool(self.call(create))


class Member:
    """The program on one worker."""

    def __init__(self, gang: "GangRun", agent: Agent) -> None:
        self.gang = gang
        self.agent = agent
        self.exit: int | None = None
        """Its status, or the negative number of the signal that killed it."""
        self.start: tuple[int, str] | None = None
        self.is_told = False

    def terminate(self) -> None:
        if self.is_told or self.exit is not None:
            return
        self.is_told = True
        program = self.gang.trainings.program
        if program.saves_on_term:
            self.gang.save()
        code = 0 if program.ends_well_on_term else -15
        self.gang.universe.after(0.5, lambda: self.end(code))

    def kill(self) -> None:
        self.end(-9)

    def end(self, code: int) -> None:
        if self.exit is None:
            self.exit = code
            self.gang.changed.fire()
            self.agent.woken.fire()


class GangRun:
    """The programs of one attempt."""

    def __init__(self, trainings: Trainings, attempt: int, size: int) -> None:
        self.trainings = trainings
        self.universe = trainings.universe
        self.attempt = attempt
        self.size = size
        self.members: dict[int, Member] = {}
        self.step = 0
        self.state = ""
        self.stepped = False
        self.changed = Signal()
        self.universe.spawn(self._train())

    def join(self, agent: Agent) -> Member:
        member = self.members[agent.worker_id] = Member(self, agent)
        self.universe.spawn(self._restore(member))
        return member

    @property
    def is_whole(self) -> bool:
        members = self.members.values()
        return len(members) == self.size and all(
            each.exit is None and each.start is not None for each in members
        )

    def _restore(self, member: Member) -> Process:
        while member.exit is None:
            yield self.universe.draws.uniform(0.2, 1.0)
            found = self.trainings.newest()
            if found is not None:
                member.start = found
                member.agent.print(f"resumed step={found[0]}" if found[0] else "begun")
                self.changed.fire()
                return

    def _train(self) -> Process:
        while not self.is_whole:
            if any(each.exit is not None for each in self.members.values()):
                return (yield from self._give_up())
            yield self.changed
        self._begin()
        while self.step < self.trainings.program.steps:
            yield self.trainings.program.step_s
            if not self.is_whole or self._fails():
                return (yield from self._give_up())
            self._take_step()
            if self.step % self.trainings.program.save_every == 0:
                yield SAVING_S
                self.save()
        self.trainings.results[self.attempt] = self.state
        for member in self.members.values():
            member.end(0)
        return None

    def _begin(self) -> None:
        starts = {member.start for member in self.members.values()}
        if len(starts) > 1:
            self.trainings.wrong.append(f"attempt {self.attempt} began from {starts}")
        self.step, self.state = next(start for start in starts if start)

    def _take_step(self) -> None:
        self.stepped = True
        self.trainings.stepping(self.attempt, self.step + 1)
        self.step += 1
        self.state = _stepped(self.state, self.step)
        for member in self.members.values():
            member.agent.status["step"] = self.step
            member.agent.print(f"step={self.step} loss=0.5")

    def _fails(self) -> bool:
        program = self.trainings.program
        if program.crashes_at == self.step + 1:
            self.members[0].end(CRASH)
            return True
        if program.fails_once_at == self.step + 1 and self.attempt == 1:
            self.members[0].end(RETRY_ME)
            return True
        return False

    def _give_up(self) -> Process:
        yield GIVE_UP_S
        for member in self.members.values():
            member.end(CRASH)

    def save(self) -> None:
        """Commit a checkpoint of what every worker has."""
        if not self.is_whole or not self.step:
            return
        body = json.dumps({"step": self.step, "digest": self.state}).encode()
        prefix = f"{CHECKPOINTS}{self.step:06d}"
        parts = [self.trainings.put(f"{prefix}/shard-{k}", b"x") for k in self.members]
        if all(parts):
            self.trainings.put(f"{prefix}/COMMIT", body)
