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
    TpuctlError,
    TransientError,
)
from tpuctl.jobs import lease as leasing
from tpuctl.jobs import record as records
from tpuctl.jobs import seat
from tpuctl.jobs.caretaker import Caretaker, Clocks, LeaseLostError
from tpuctl.jobs.lease import Lease, Watcher
from tpuctl.jobs.ports import Outside
from tpuctl.jobs.story import troubled

IDLE_EXIT_S = 3.0
SCAN_S = 1.0
UNREACHED_S = 60.0
"""A supervisor with nothing in care ends after this long without its bucket."""
UNREACHED_IN_CARE_S = 600.0
"""One with jobs in care, after this long; the jobs go on without it."""
UNRECORDED_S = 60.0
"""A lease without a record is a submission that was cut short."""
TROUBLE_S = 30.0
"""A job that could not be looked after is taken up again after this."""
LEAVE_S = 2.0
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
    """Jobs whose records another tpuctl must read."""
    resting: dict[str, float] = field(default_factory=dict)
    """Jobs that could not be looked after, and since when."""
    unrecorded: dict[str, float] = field(default_factory=dict)
    """Jobs with a lease and no record, and since when."""
    unreadable: set[str] = field(default_factory=set)
    """What was said of leases that cannot be read."""
    bugs: list[BaseException] = field(default_factory=list)
    known: dict[str, Lease] = field(default_factory=dict)
    holder: str = ""
    watcher: Watcher = field(init=False)

    def __post_init__(self) -> None:
        self.holder = f"{self.place}-{secrets.token_hex(4)}"
        self.watcher = Watcher(self.clocks.monotonic, frozenset({self.place}))

    async def serve(self, idle_exit_s: float) -> None:
        """Scan, take, care; returns when idle for long enough. Raises TransientError."""
        beating = asyncio.create_task(self._keep_beating())
        idle_since = reached = self.clocks.monotonic()
        try:
            # Measured after the count: a process that was stopped for a while has not been idle.
            while not self._is_idle() or self.clocks.monotonic() - idle_since < idle_exit_s:
                if await self._reaches():
                    reached = self.clocks.monotonic()
                else:
                    idle_since = self.clocks.monotonic()
                    self._bear(idle_since - reached)
                await self._reap()
                if not self._is_idle():
                    idle_since = self.clocks.monotonic()
                if beating.done():
                    beating.result()
                await self.clocks.sleep(min(SCAN_S, idle_exit_s / 2))
        finally:
            await self._leave([beating, *self.tasks.values()])
        if self.bugs:
            raise self.bugs[0]

    async def has_work(self) -> bool:
        """There is a job of ours that is not settled, whoever holds it."""
        found = await asyncio.to_thread(self._leases)
        return any(self._is_ours(lease) for lease in found)

    def _is_idle(self) -> bool:
        """No job of ours is unsettled; one that somebody else holds may fall to us yet."""
        return not self._is_busy() and not any(map(self._is_ours, self.known.values()))

    def _is_busy(self) -> bool:
        return bool(self.tasks or self.resting or self.unrecorded)

    async def _reaches(self) -> bool:
        """Scan the bucket; one that is not there, or refuses us for now, is no end of the jobs."""
        try:
            await self._scan()
        except TpuctlError as error:
            if not isinstance(error, TransientError) and not self._is_busy():
                raise
            self.say(f"cannot reach the bucket: {error}")
            return False
        return True

    def _bear(self, unreached_s: float) -> None:
        if unreached_s < (UNREACHED_IN_CARE_S if self._is_busy() else UNREACHED_S):
            return
        raise TransientError(
            f"the bucket was not reached for {unreached_s:.0f} s: no supervisor here any more",
            hint="jobs go on without it; when the bucket is back, run: tpuctl supervisor run",
        )

    async def _scan(self) -> None:
        await asyncio.to_thread(self.watcher.look, self.outside.store)
        found = await asyncio.to_thread(self._leases)
        self.known = {lease.job_id: lease for lease in found}
        self.resting = {job: since for job, since in self.resting.items() if job in self.known}
        self.unrecorded = {job: at for job, at in self.unrecorded.items() if job in self.known}
        for lease in found:
            if self._is_ours(lease) and self._is_free(lease):
                await self._try_to_adopt(lease)

    def _leases(self) -> list[Lease]:
        return leasing.leases(self.outside.store, self.known, self._report_unreadable)

    def _report_unreadable(self, error: DamagedStateError) -> None:
        """Once: it is found again at every look."""
        if str(error) not in self.unreadable:
            self.unreadable.add(str(error))
            self.say(f"passed over: {error}")

    async def _try_to_adopt(self, lease: Lease) -> None:
        """What is wrong with one job keeps nobody from the others."""
        try:
            await self._adopt(lease)
        except TransientError as error:
            self.say(f"{lease.job_id}: {error}")
        except TpuctlError as error:
            self.resting[lease.job_id] = self.clocks.monotonic()
            self.say(f"{lease.job_id}: {error}; it is tried again every {TROUBLE_S:.0f} s")

    def _is_ours(self, lease: Lease) -> bool:
        return lease.owner == self.owner and lease.job_id not in self.given_up

    def _is_free(self, lease: Lease) -> bool:
        if lease.job_id in self.tasks or self._rests(lease.job_id):
            return False
        return lease.holder == self.holder or self.watcher.is_dead(lease.holder)

    def _rests(self, job_id: str) -> bool:
        since = self.resting.get(job_id)
        return since is not None and self.clocks.monotonic() - since < TROUBLE_S

    async def _adopt(self, lease: Lease) -> None:
        try:
            await asyncio.to_thread(records.load, self.outside.store, lease.job_id)
        except NotFoundError:
            await self._wait_for_record(lease)
            return
        except DamagedStateError as error:
            self.given_up.add(lease.job_id)
            self.resting.pop(lease.job_id, None)
            self.say(f"{lease.job_id}: given up: {error}")
            return
        self.unrecorded.pop(lease.job_id, None)
        taken = await asyncio.to_thread(leasing.take, self.outside.store, lease, self.holder)
        if taken is not None:
            self.say(f"{lease.job_id}: supervised here")
            self.resting.pop(lease.job_id, None)
            self.known[lease.job_id] = taken
            self.tasks[lease.job_id] = asyncio.create_task(self._care(taken))

    async def _wait_for_record(self, lease: Lease) -> None:
        """It is being submitted; or nobody does so any more, and the lease is withdrawn."""
        since = self.unrecorded.setdefault(lease.job_id, self.clocks.monotonic())
        if self.clocks.monotonic() - since < UNRECORDED_S:
            return
        store, job_id = self.outside.store, lease.job_id
        if await asyncio.to_thread(leasing.withdraw, store, lease):
            self.say(f"{job_id}: was never submitted to the end")
        if await asyncio.to_thread(records.generation, store, job_id) is not None:
            await asyncio.to_thread(leasing.renew_offer, store, job_id, lease.owner)

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

    async def _reap(self) -> None:
        for job_id, task in list(self.tasks.items()):
            if not task.done():
                continue
            del self.tasks[job_id]
            error = task.exception()
            if error is not None:
                await self._rest(job_id, error)

    async def _rest(self, job_id: str, error: BaseException) -> None:
        """One job's trouble, a bug of ours included, is not the other jobs' trouble."""
        self.resting[job_id] = self.clocks.monotonic()
        text = f"{str(error) or repr(error)}; it is tried again every {TROUBLE_S:.0f} s"
        self.say(f"{job_id}: {text}")
        if not isinstance(error, TpuctlError):
            self.bugs.append(error)
        try:
            await asyncio.to_thread(self._record_trouble, job_id, text)
        except TpuctlError as unwritten:
            self.say(f"{job_id}: {unwritten}")

    def _record_trouble(self, job_id: str, text: str) -> None:
        lease, stored = self.known.get(job_id), records.load(self.outside.store, job_id)
        if lease is not None and stored.record.fence <= lease.fence:
            told = troubled(stored.record, text, self.clocks.now())
            records.save(self.outside.store, told, stored.generation)

    async def _keep_beating(self) -> None:
        body = {"host": platform.node(), "pid": os.getpid(), "owner": self.owner}
        generation = 0
        while True:
            try:
                generation = await asyncio.to_thread(
                    leasing.beat, self.outside.store, self.holder, body, generation
                )
            except TpuctlError as error:
                self.say(f"heartbeat: {error}")
                generation = await self._generation_of_heartbeat(generation)
            await self.clocks.sleep(leasing.RENEW_S)

    async def _generation_of_heartbeat(self, generation: int) -> int:
        """Nobody else writes it: what is there is ours, its reply lost."""
        try:
            entry = await asyncio.to_thread(
                self.outside.store.head, leasing.HEARTBEATS + self.holder
            )
        except TpuctlError:
            return generation
        return entry.generation if entry else 0

    async def _leave(self, tasks: list[asyncio.Task[None]]) -> None:
        """In order, but not for long: the bucket may be gone."""
        for task in tasks:
            task.cancel()
        try:
            async with asyncio.timeout(LEAVE_S):
                await asyncio.gather(*tasks, return_exceptions=True)
                await asyncio.to_thread(leasing.leave, self.outside.store, self.holder)
        except (TpuctlError, TimeoutError) as error:
            self.say(f"the heartbeat stays: {error or 'the bucket does not answer'}")
