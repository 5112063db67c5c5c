"""Finds the jobs that nobody looks after, takes their leases, and cares for each to its end."""

import asyncio
import os
import platform
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tpuctl.errors import (
    DamagedStateError,
    LockedError,
    NotFoundError,
    PreconditionError,
    TpuctlError,
    TransientError,
)
from tpuctl.jobs import lease as leasing
from tpuctl.jobs import record as records
from tpuctl.jobs import seat
from tpuctl.jobs.caretaker import Caretaker, Clocks, LeaseLostError
from tpuctl.jobs.lease import Lease, Watcher
from tpuctl.jobs.ports import Outside

IDLE_EXIT_S = 3.0
SCAN_S = 1.0
SYSTEM = Clocks(time.time, time.monotonic, asyncio.sleep)


async def run(
    outside: Outside,
    *,
    home: Path,
    owner: str,
    idle_exit_s: float = IDLE_EXIT_S,
    say: Callable[[str], None] = lambda _line: None,
    clocks: Clocks = SYSTEM,
) -> None:
    """Supervise the owner's jobs until there has been none for a while. Raises LockedError."""
    while True:
        with seat.taken(home, outside.context) as place:
            supervisor = Supervisor(outside, owner, place, clocks, say)
            await supervisor.serve(idle_exit_s)
        # A job submitted just before the seat was free again was left to us.
        if not await supervisor.has_work():
            return
        if seat.is_taken(home, outside.context):
            raise LockedError(f"another supervisor of {outside.context!r} took over")


@dataclass(slots=True)
class Supervisor:
    """One process's heartbeat, and a caretaker per job."""

    outside: Outside
    owner: str
    place: str
    clocks: Clocks
    say: Callable[[str], None]
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    given_up: set[str] = field(default_factory=set)
    bugs: list[BaseException] = field(default_factory=list)
    known: dict[str, Lease] = field(default_factory=dict)
    holder: str = ""
    watcher: Watcher = field(init=False)

    def __post_init__(self) -> None:
        self.holder = f"{self.place}-{secrets.token_hex(4)}"
        self.watcher = Watcher(self.clocks.monotonic, frozenset({self.place}))

    async def serve(self, idle_exit_s: float) -> None:
        """Scan, take, care; returns when idle for long enough."""
        beating = asyncio.create_task(self._keep_beating())
        idle_since = self.clocks.monotonic()
        try:
            while self.clocks.monotonic() - idle_since < idle_exit_s:
                try:
                    await self._scan()
                except TransientError as error:
                    self.say(f"cannot reach the bucket: {error}")
                    idle_since = self.clocks.monotonic()
                self._reap()
                if self.tasks:
                    idle_since = self.clocks.monotonic()
                if beating.done():
                    beating.result()
                await self.clocks.sleep(min(SCAN_S, idle_exit_s / 2))
        finally:
            await self._leave([beating, *self.tasks.values()])
        if self.bugs:
            raise self.bugs[0]

    async def has_work(self) -> bool:
        """Somebody else's silence aside, there is a job of ours that is not settled."""
        found = await asyncio.to_thread(leasing.leases, self.outside.store, self.known)
        return any(self._is_ours(lease) for lease in found)

    async def _scan(self) -> None:
        await asyncio.to_thread(self.watcher.look, self.outside.store)
        found = await asyncio.to_thread(leasing.leases, self.outside.store, self.known)
        self.known = {lease.job_id: lease for lease in found}
        for lease in found:
            if self._is_ours(lease) and self._is_free(lease):
                await self._adopt(lease)

    def _is_ours(self, lease: Lease) -> bool:
        return lease.owner == self.owner and lease.job_id not in self.given_up

    def _is_free(self, lease: Lease) -> bool:
        if lease.job_id in self.tasks:
            return False
        return lease.holder == self.holder or self.watcher.is_dead(lease.holder)

    async def _adopt(self, lease: Lease) -> None:
        try:
            await asyncio.to_thread(records.load, self.outside.store, lease.job_id)
        except NotFoundError:
            return  # being submitted
        except DamagedStateError as error:
            self._give_up(lease.job_id, error)
            return
        taken = await asyncio.to_thread(leasing.take, self.outside.store, lease, self.holder)
        if taken is not None:
            self.say(f"{lease.job_id}: supervised here")
            self.tasks[lease.job_id] = asyncio.create_task(self._care(taken))

    async def _care(self, lease: Lease) -> None:
        """Care for one job, through the absences of the bucket."""
        while True:
            try:
                stored = await asyncio.to_thread(records.load, self.outside.store, lease.job_id)
                await Caretaker(self.outside, lease, self.clocks, stored).care()
                self.say(f"{lease.job_id}: settled")
                return
            except LeaseLostError:
                self.say(f"{lease.job_id}: another supervisor took over")
                return
            except TransientError as error:
                self.say(f"{lease.job_id}: {error}")
                await self.clocks.sleep(SCAN_S)

    def _reap(self) -> None:
        for job_id, task in list(self.tasks.items()):
            if not task.done():
                continue
            del self.tasks[job_id]
            error = task.exception()
            if error is not None:
                self._give_up(job_id, error)

    def _give_up(self, job_id: str, error: BaseException) -> None:
        """One job's trouble, a bug of ours included, is not the other jobs' trouble."""
        self.given_up.add(job_id)
        self.say(f"{job_id}: given up: {error!r}")
        if not isinstance(error, TpuctlError):
            self.bugs.append(error)

    async def _keep_beating(self) -> None:
        body = {"host": platform.node(), "pid": os.getpid(), "owner": self.owner}
        generation = 0
        while True:
            try:
                generation = await asyncio.to_thread(
                    leasing.beat, self.outside.store, self.holder, body, generation
                )
            except (TransientError, PreconditionError) as error:
                self.say(f"heartbeat: {error}")
                generation = await self._generation_of_heartbeat(generation)
            await self.clocks.sleep(leasing.RENEW_S)

    async def _generation_of_heartbeat(self, generation: int) -> int:
        """Nobody else writes it: what is there is ours, its reply lost."""
        try:
            entry = await asyncio.to_thread(
                self.outside.store.head, leasing.HEARTBEATS + self.holder
            )
        except TransientError:
            return generation
        return entry.generation if entry else 0

    async def _leave(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await asyncio.to_thread(leasing.leave, self.outside.store, self.holder)
        except TpuctlError as error:
            self.say(f"heartbeat: {error}")
