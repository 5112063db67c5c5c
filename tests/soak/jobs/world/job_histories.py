"""A history of one job, told from its beginning to the moment when nothing moves any more.

    PYTHONPATH=tests python -m soak.jobs.world.job_histories '{"seed": 1, …}'

tells one again, with every line, as a failed test prints it.
"""

import json
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any
from unittest import mock

from soak.jobs.world.job_fates import KINDS, NEVER_S, Event
from soak.jobs.world.job_training import RETRY_ME, Program, digest
from soak.jobs.world.job_universe import JOB_ID, TYPE, ZONES, World, counted
from soak.jobs.world.virtual_time import EPOCH_S, Universe
from tpuctl.jobs.record import record_store as records
from tpuctl.jobs.slices import slice_api
from tpuctl.models.job import JobRecord, JobSpec, JobState, Resources, Restart, Teardown, Timeouts
from tpuctl.models.search import Search

SETTLED_WITHIN_S = 3 * 3600.0
WATCHDOG_S = 10.0
LAST_WORDS_S = 30.0
LOOK_ON_S = 3600.0
RUN_LIMIT_S = 900.0
"""`timeouts.run` where nobody comes back: the switch goes by it."""
SWITCH_S = 900.0
NAMED = "mine"


@dataclass(frozen=True)
class History:
    """What was asked for, and what happens meanwhile."""

    seed: int = 0
    workers: int = 2
    slices: int = 1
    own: bool = True
    provisioning_s: float = 20.0
    program: Program = Program()
    events: tuple[Event, ...] = ()
    queue_s: float | None = None
    is_abandoned: bool = False
    """In the end nobody supervises."""
    at_once: int = 1
    """Requests side by side, each in a zone of its own."""
    zones_out_s: tuple[float, ...] = ()
    """For how long each zone has no capacity."""

    def spec(self) -> JobSpec:
        resources = Resources(TYPE, use_spot=True, num_slices=self.slices)
        return JobSpec(
            name="digits",
            run="python3 train.py",
            setup="true",
            resources=resources if self.own else Resources(),
            restart=Restart(exit_codes=(RETRY_ME,)),
            timeouts=Timeouts(self.queue_s, run_s=RUN_LIMIT_S if self.is_abandoned else None),
            teardown=Teardown.ALWAYS,
            search=Search(at_once=self.at_once),
        )

    def has(self, kind: str) -> bool:
        return any(event.kind == kind for event in self.events)


@dataclass
class Told:
    """How a history ended."""

    record: JobRecord
    wrong: list[str]
    leaked_usd: float
    usd: float
    virtual_s: float
    struck: Counter[str]
    calls: int
    """What the first seat's machine asked of the outside."""
    created: list[str]
    said: list[str] = field(default_factory=list)


def look_in_turn(look: Any, names: Mapping[str, str], zone: str) -> threading.Thread:
    """What a zone's own thread finds, without one: a history is the same each time."""
    look.at_requests({name: other for name, other in names.items() if other == zone})
    done = threading.Thread()
    done.start()
    return done


@mock.patch.object(slice_api, "_start_look", look_in_turn)
def tell(history: History) -> Told:
    """Let it happen."""
    universe = Universe(history.seed)
    world = World(universe, history.program, history.workers, history.provisioning_s)
    world.cloud.out_until_s |= dict(zip(ZONES, history.zones_out_s, strict=False))
    try:
        world.submit(history.spec(), None if history.own else NAMED)
        world.supervise(0)
        for event in history.events:
            world.faults.struck[event.kind] += 1
            if event.at_s == 0:
                KINDS[event.kind](world, event)
            else:
                universe.after(event.at_s, partial(KINDS[event.kind], world, event))
        wrong = _abandoned(world, history) if history.is_abandoned else _cared_for(world, history)
        before_usd = world.cloud.usd()
        universe.run(lambda: False, universe.now_s + LOOK_ON_S)
        leaked_usd = world.cloud.usd() - before_usd
        wrong += _wrong(world, history, leaked_usd)
        if history.is_abandoned:
            wrong += _found_later(world)
        return Told(
            world.record, wrong, leaked_usd, world.cloud.usd(), universe.now_s - LOOK_ON_S,
            world.faults.struck, world.calls, world.cloud.created, world.said,
        )  # fmt: skip
    finally:
        world.bury()


def _cared_for(world: World, history: History) -> list[str]:
    """Until the job is settled: whenever nobody supervises any more, somebody begins to."""
    universe = world.universe
    over_s = max([event.at_s + _lasts_s(event) for event in history.events] or [0.0])

    def settled() -> bool:
        return universe.now_s > over_s and _is_settled(world)

    def watchdog() -> None:
        if settled():
            return
        frozen = [seat for seat in world.seats if seat.machine.frozen]
        if not any(seat.is_busy for seat in world.seats) or (len(frozen) == len(world.seats)):
            world.supervise(1 if universe.now_s < over_s else 2)
        universe.after(WATCHDOG_S, watchdog)

    universe.after(min(over_s, 300.0) + WATCHDOG_S, watchdog)
    limit_s = over_s + SETTLED_WITHIN_S
    if not universe.run(settled, limit_s):
        record = world.record
        return [f"not settled after {limit_s:.0f} s: {record.state}, {record.why}"]
    universe.run(lambda: not any(s.is_busy for s in world.seats), universe.now_s + LAST_WORDS_S)
    return _wrong_end(world, history)


def _lasts_s(event: Event) -> float:
    return 0.0 if event.kind == "clock jumps" or event.for_s >= NEVER_S else event.for_s


def _is_settled(world: World) -> bool:
    """Its lease goes last."""
    return not world.bucket.list("tpuctl/leases/") and world.record.is_settled


def _abandoned(world: World, history: History) -> list[str]:
    """Every supervisor is gone for good; the slice must end by itself."""
    over_s = max([event.at_s for event in history.events] or [60.0])
    world.universe.run(lambda: False, over_s)
    for seat in world.seats:
        seat.machine.die()
    world.seats.clear()
    limit_s = RUN_LIMIT_S + 2 * SWITCH_S + SETTLED_WITHIN_S / 3
    world.universe.run(lambda: False, over_s + limit_s)
    return []


def _known_to_have_ended_well(world: World) -> list[int]:
    """Attempts that came to their end, and whose agents could tell the bucket."""
    return [
        number
        for number in world.trainings.results
        if len(world.bucket.list(f"{records.job_directory(JOB_ID)}/status/a{number}/"))
        == world.trainings.gangs[number].size
    ]


def _found_later(world: World) -> list[str]:
    """After the switch somebody comes by: the record tells what became of the job."""
    done, slices = _known_to_have_ended_well(world), len(world.cloud.created)
    world.faults.planned.clear()
    world.supervise(2)
    limit_s = world.universe.now_s + SETTLED_WITHIN_S
    if not world.universe.run(lambda: _is_settled(world), limit_s):
        return [f"never settled: {world.record.state}, {world.record.why}"]
    last = world.record.attempts[-1:]
    if done and not (world.record.state == JobState.SUCCEEDED and len(last) == 1):
        return [f"the programs of {done} ended well, and the job is {world.record.state}"]
    if world.cloud.requests:
        return [f"requests hold quota: {list(world.cloud.requests)}"]
    if done and len(world.cloud.created) > slices:
        return ["another slice was made for a job that had ended well"]
    return []


def _wrong_end(world: World, history: History) -> list[str]:
    record, wrong = world.record, []
    if record.state not in expected(history):
        wrong.append(f"{record.state} ({record.why}) instead of {sorted(expected(history))}")
    if record.state == JobState.SUCCEEDED:
        last = record.attempt
        result = world.trainings.results.get(last.number if last else 0)
        if result != digest(history.program.steps):
            wrong.append(f"SUCCEEDED with {result} instead of {digest(history.program.steps)}")
    return wrong


def expected(history: History) -> set[JobState]:
    """The states in which the job may end."""
    program = history.program
    ends = {JobState.SUCCEEDED}
    if program.setup_fails or program.crashes_at is not None:
        ends = {JobState.FAILED}
    if history.has("cancelled"):
        ends.add(JobState.CANCELLED)
    if history.queue_s is not None:
        ends = {JobState.FAILED}
    if history.has("slice deleted") or (not history.own and history.has("worker dies")):
        ends.add(JobState.FAILED)
    return ends


def _wrong(world: World, history: History, leaked_usd: float) -> list[str]:
    wrong = [*world.cloud.wrong, *world.trainings.wrong, *(repr(bug) for bug in world.bugs)]
    if leaked_usd > 0:
        wrong.append(f"leaked {leaked_usd:.2f} USD an hour: {list(world.cloud.slices)}")
    elif world.cloud.requests and not history.is_abandoned:
        wrong.append(f"requests hold quota: {list(world.cloud.requests)}")
    return wrong


def reproducer(history: History) -> str:
    """The command that tells it again."""
    return (
        f"PYTHONPATH=tests python -m soak.jobs.world.job_histories '{json.dumps(asdict(history))}'"
    )


def parsed(text: str) -> History:
    """A history of its JSON."""
    document = json.loads(text)
    document["program"] = Program(**document["program"])
    document["zones_out_s"] = tuple(document["zones_out_s"])
    document["events"] = tuple(Event(**event) for event in document["events"])
    return History(**document)


def main(text: str) -> None:
    """Tell one history with everything that was said."""
    found = tell(parsed(text))
    for event in found.record.events:
        print(f"{event.time_s - EPOCH_S:8.2f} {event.text}")
    print(*found.said, sep="\n")
    for attempt in found.record.attempts:
        print(replace(attempt, workers=()))
    print(f"{found.record.state}, {found.usd:.2f} USD, {found.virtual_s:.0f} s simulated")
    print(counted(found.struck))
    print(*found.wrong, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
