"""Finds the jobs that nobody looks after, takes their leases, and cares for each to its end."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tpuctl.errors import DamagedStateError, LockedError, TpuctlError, TransientError
from tpuctl.jobs.clocks import SYSTEM
from tpuctl.jobs.leases import lease as leasing
from tpuctl.jobs.leases.duty import Duty
from tpuctl.jobs.leases.heartbeat import Watcher
from tpuctl.jobs.leases.lease import Lease
from tpuctl.jobs.leases.pulse import Pulse
from tpuctl.jobs.local import seat, unsettled
from tpuctl.jobs.ports import Clocks, Outside
from tpuctl.jobs.secrets import handover
from tpuctl.jobs.secrets.secrets import Vault
from tpuctl.jobs.supervisor.custody import Custody

SCAN_S = 1.0
IDLE_SCAN_S = 5.0
"""Of a supervisor that stays when there is nothing to do."""
POKE_S = 0.1
UNREACHED_S = 60.0
"""A supervisor with nothing in care ends after this long without its bucket."""
UNREACHED_IN_CARE_S = 600.0
"""One with jobs in care, after this long; the jobs go on without it."""
LEAVE_S = 2.0


async def run(
    outside: Outside,
    duty: Duty,
    *,
    home: Path,
    say: Callable[[str], None] = lambda _line: None,
    clocks: Clocks = SYSTEM,
    vault: Vault | None = None,
) -> None:
    """Supervise until there has been no job for a while. Raises LockedError."""
    context = outside.context
    vault = vault or Vault("", os.environ)
    while True:
        with seat.taken(home, context) as vault.place:
            supervisor = Supervisor(outside, duty, vault, clocks, say)
            supervisor.poked = partial(seat.poked_ns, home, context)
            supervisor.custody.adopted = partial(unsettled.note, home, context)
            supervisor.custody.settled = partial(unsettled.settled, home, context)
            async with handover.serving(vault, home, context, say):
                await supervisor.serve()
        # A job submitted just before the seat was free again was left to us.
        if not await supervisor.has_work():
            return
        if seat.is_taken(home, context):
            raise LockedError(f"another supervisor of {context!r} took over")


@dataclass(slots=True)
class Supervisor:
    """Watches the leases of a bucket for jobs that fall to it."""

    outside: Outside
    duty: Duty
    vault: Vault
    """Its place is the seat's lasting name."""
    clocks: Clocks
    say: Callable[[str], None]
    poked: Callable[[], int] = lambda: 0
    """When somebody on this machine last asked for a look at the bucket."""
    unreadable: set[str] = field(default_factory=set)
    """What was said of leases that cannot be read."""
    known: dict[str, Lease] = field(default_factory=dict)
    pulse: Pulse = field(init=False)
    watcher: Watcher = field(init=False)
    custody: Custody = field(init=False)

    def __post_init__(self) -> None:
        place = self.vault.place
        self.pulse = Pulse(self.outside.store, place, self.duty, self.clocks, self.say)
        self.watcher = Watcher(self.clocks.monotonic, frozenset({place}), self.duty.terms)
        self.custody = Custody(
            self.outside, self.clocks, self.vault, self.pulse, self.watcher, self.say
        )

    async def serve(self) -> None:
        """Scan, take, care; returns when idle for long enough. Raises TransientError."""
        custody = self.custody
        beating = asyncio.create_task(
            self.pulse.keep_beating(lambda: custody.is_holding, custody.abandon)
        )
        idle_since = reached = self.clocks.monotonic()
        try:
            while True:
                if await self._reaches():
                    reached = self.clocks.monotonic()
                else:
                    idle_since = self.clocks.monotonic()
                    self._bear(idle_since - reached)
                await custody.reap(self.known)
                if not self._is_idle():
                    idle_since = self.clocks.monotonic()
                if beating.done():
                    beating.result()
                if self.duty.is_over(self.clocks.monotonic() - idle_since):
                    break
                await self._pause()
        finally:
            await self._leave([beating, *custody.tasks.values()])
        if custody.bug is not None:
            raise custody.bug

    async def has_work(self) -> bool:
        """There is a job of ours that is not settled, whoever holds it."""
        found = await asyncio.to_thread(self._leases)
        return any(self._is_ours(lease) for lease in found)

    def _is_ours(self, lease: Lease) -> bool:
        custody = self.custody
        return self.duty.has(lease) and lease.job_id not in custody.given_up

    def _is_idle(self) -> bool:
        """No job of ours is unsettled; one that somebody else holds may fall to us yet."""
        return not self.custody.is_busy and not any(map(self._is_ours, self.known.values()))

    async def _pause(self) -> None:
        """Until the next scan is due, or somebody asks for it."""
        stays = self.duty.idle_exit_s is None
        pause_s = IDLE_SCAN_S if stays and self._is_idle() else SCAN_S
        until, before = self.clocks.monotonic() + self.duty.shortened(pause_s), self.poked()
        while (left_s := until - self.clocks.monotonic()) > 0 and self.poked() == before:
            await self.clocks.sleep(min(left_s, POKE_S))

    async def _reaches(self) -> bool:
        """Scan the bucket; one that is not there, or refuses us for now, is no end of the jobs."""
        try:
            await self._scan()
        except TpuctlError as error:
            if not isinstance(error, TransientError) and not self.custody.is_busy:
                raise
            self.say(f"cannot reach the bucket: {error}")
            return False
        return True

    def _bear(self, unreached_s: float) -> None:
        limit_s = UNREACHED_IN_CARE_S if self.custody.is_busy else UNREACHED_S
        if self.duty.idle_exit_s is None or unreached_s < limit_s:
            return
        raise TransientError(
            f"the bucket was not reached for {unreached_s:.0f} s: no supervisor here any more",
            hint="jobs go on without it; when the bucket is back, run: tpuctl supervisor run",
        )

    async def _scan(self) -> None:
        """First the leases, then the heartbeats: who has a lease had a heartbeat before."""
        found = await asyncio.to_thread(self._leases)
        ours = [lease for lease in found if self._is_ours(lease)]
        if {lease.holder for lease in ours} - {"", self.pulse.holder}:
            await asyncio.to_thread(self.watcher.look, self.outside.store)
        before, self.known = self.known, {lease.job_id: lease for lease in found}
        self.custody.forget_all_but(self.known)
        for lease in ours:
            if lease != before.get(lease.job_id, lease):
                self.custody.hear(lease)
            await self.custody.consider(lease)

    def _leases(self) -> list[Lease]:
        return leasing.leases(self.outside.store, self.known, self._report_unreadable)

    def _report_unreadable(self, error: DamagedStateError) -> None:
        """Once: it is found again at every look."""
        if str(error) not in self.unreadable:
            self.unreadable.add(str(error))
            self.say(f"passed over: {error}")

    async def _leave(self, tasks: list[asyncio.Task[None]]) -> None:
        """In order, but not for long: the bucket may be gone."""
        for task in tasks:
            task.cancel()
        try:
            async with asyncio.timeout(LEAVE_S):
                await asyncio.gather(*tasks, return_exceptions=True)
                await self.pulse.leave()
        except TimeoutError:
            self.say("the heartbeat stays: the bucket does not answer")
