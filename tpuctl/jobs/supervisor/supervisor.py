"""Finds the jobs that nobody looks after, takes their leases, and cares for each to its end."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tpuctl.errors import DamagedStateError, LockedError, TpuctlError, TransientError
from tpuctl.jobs.interfaces import SYSTEM_CLOCKS, Backends, Clocks
from tpuctl.jobs.leases import lease as leasing
from tpuctl.jobs.leases.heartbeat import HeartbeatWatcher
from tpuctl.jobs.leases.heartbeat_sender import HeartbeatSender
from tpuctl.jobs.leases.lease import Lease
from tpuctl.jobs.leases.supervisor_scope import SupervisorScope
from tpuctl.jobs.local import notify_commands, open_jobs, supervisor_lock
from tpuctl.jobs.secrets import secret_handover
from tpuctl.jobs.secrets.job_secrets import SecretCache, values_id
from tpuctl.jobs.supervisor.cost_notes import note_costs
from tpuctl.jobs.supervisor.job_pool import JobPool
from tpuctl.jobs.supervisor.overdue_slices import OverdueSlices
from tpuctl.models.job import JobRecord

SCAN_S = 1.0
IDLE_SCAN_S = 5.0
"""Seconds between two scans of a supervisor that stays when there is nothing to do."""
WAKE_POLL_S = 0.1
UNREACHED_S = 60.0
"""A supervisor with nothing in care ends after this long without its bucket."""
UNREACHED_WITH_JOBS_S = 600.0
"""A supervisor with jobs in care ends after this long; the jobs go on without it."""
LEAVE_S = 2.0


async def run(  # noqa: PLR0913 (what of this process it uses)
    backends: Backends,
    scope: SupervisorScope,
    *,
    home: Path,
    say: Callable[[str], None] = lambda _line: None,
    clocks: Clocks = SYSTEM_CLOCKS,
    vault: SecretCache | None = None,
    on_pool: Callable[[JobPool], None] = lambda _pool: None,
) -> None:
    """Supervise until there has been no job for a while. Raises LockedError.

    `on_pool` is called with the jobs in hand, before the first is taken.
    """
    context = backends.context
    vault = vault or SecretCache("", os.environ)
    while True:
        with supervisor_lock.hold(home, context) as vault.host_id:
            supervisor = Supervisor(backends, scope, vault, clocks, say)
            supervisor.cost_notes = partial(note_costs, backends, home, clocks)
            supervisor.last_wake_ns = partial(supervisor_lock.last_wake_ns, home, context)
            supervisor.job_pool.on_adopted = partial(open_jobs.add_jobs, home, context)
            supervisor.job_pool.settled = partial(open_jobs.remove_job, home, context)
            supervisor.job_pool.may_run = partial(_is_allowed, home, context)
            on_pool(supervisor.job_pool)
            async with secret_handover.serve(vault, home, context, say):
                await supervisor.serve()
        # A job submitted just before the lock was free again was left to us.
        if not await supervisor.has_work():
            return
        if supervisor_lock.is_locked(home, context):
            raise LockedError(f"another supervisor of {context!r} took over")


def _is_allowed(home: Path, context: str, record: JobRecord, command: Sequence[str]) -> bool:
    """Whether somebody on this machine submitted the job with that command."""
    return notify_commands.is_allowed(home, context, values_id(record), command)


@dataclass(slots=True)
class Supervisor:
    """Watches the leases of a bucket, and takes jobs that nobody looks after."""

    backends: Backends
    scope: SupervisorScope
    vault: SecretCache
    """The values of secrets that this process knows, and this machine's host id."""
    clocks: Clocks
    say: Callable[[str], None]
    last_wake_ns: Callable[[], int] = lambda: 0
    """When somebody on this machine last asked for a look at the bucket."""
    cost_notes: Callable[[], Coroutine[None, None, None]] | None = None
    """What notes now and then which slices there are."""
    unreadable: set[str] = field(default_factory=set)
    """What was said of leases that cannot be read."""
    known: dict[str, Lease] = field(default_factory=dict)
    heartbeat_sender: HeartbeatSender = field(init=False)
    watcher: HeartbeatWatcher = field(init=False)
    job_pool: JobPool = field(init=False)

    def __post_init__(self) -> None:
        store, host_id, terms = self.backends.store, self.vault.host_id, self.scope.terms
        sender = HeartbeatSender(store, host_id, self.scope, self.clocks, self.say)
        self.heartbeat_sender = sender
        self.watcher = HeartbeatWatcher(self.clocks.monotonic, frozenset({host_id}), terms)
        self.job_pool = JobPool(
            self.backends, self.clocks, self.vault, sender, self.watcher, self.say
        )
        sender.steps = self.job_pool.newest_steps

    async def serve(self) -> None:
        """Scan and take jobs; returns when idle for long enough. Raises TransientError."""
        pool = self.job_pool
        beating = asyncio.create_task(
            self.heartbeat_sender.keep_beating(lambda: pool.is_holding, pool.abandon)
        )
        noting = [asyncio.create_task(self.cost_notes())] if self.cost_notes else []
        overdue = self._overdue_slices()
        deleting = [asyncio.create_task(overdue.keep_deleting())] if overdue else []
        tending = [beating, *noting, *deleting]
        idle_since = reached = self.clocks.monotonic()
        try:
            while True:
                if await self._try_scan():
                    reached = self.clocks.monotonic()
                else:
                    idle_since = self.clocks.monotonic()
                    self._check_unreached(idle_since - reached)
                await pool.reap(self.known)
                if not self._is_idle():
                    idle_since = self.clocks.monotonic()
                if beating.done():
                    beating.result()
                is_done = overdue is None or overdue.has_looked
                if is_done and self.scope.may_exit(self.clocks.monotonic() - idle_since):
                    break
                await self._pause()
        finally:
            await self._leave([*tending, *pool.tasks.values()])
        if pool.bug is not None:
            raise pool.bug

    def _overdue_slices(self) -> OverdueSlices | None:
        """What deletes overdue slices; None where the context's nodes cannot be read."""
        nodes, abandon = self.backends.nodes, self.job_pool.abandon
        if nodes is None:
            return None
        return OverdueSlices(nodes, self.heartbeat_sender, abandon, self.clocks, self.say)

    async def has_work(self) -> bool:
        """Whether a job in scope is not settled, whoever holds it."""
        found = await asyncio.to_thread(self._leases)
        return any(self._is_ours(lease) for lease in found)

    def _is_ours(self, lease: Lease) -> bool:
        pool = self.job_pool
        return self.scope.has(lease) and lease.job_id not in pool.given_up

    def _is_idle(self) -> bool:
        """No job of ours is unsettled; one that somebody else holds may fall to us yet."""
        return not self.job_pool.is_busy and not any(map(self._is_ours, self.known.values()))

    async def _pause(self) -> None:
        """Sleep until the next scan is due, or somebody asks for one."""
        stays = self.scope.idle_exit_s is None
        pause_s = IDLE_SCAN_S if stays and self._is_idle() else SCAN_S
        until = self.clocks.monotonic() + self.scope.bounded_pause(pause_s)
        before = self.last_wake_ns()
        while (left_s := until - self.clocks.monotonic()) > 0 and self.last_wake_ns() == before:
            await self.clocks.sleep(min(left_s, WAKE_POLL_S))

    async def _try_scan(self) -> bool:
        """Scan the bucket; the jobs go on when it is not there, or refuses us for now."""
        try:
            await self._scan()
        except TpuctlError as error:
            if not isinstance(error, TransientError) and not self.job_pool.is_busy:
                raise
            self.say(f"cannot reach the bucket: {error}")
            return False
        return True

    def _check_unreached(self, unreached_s: float) -> None:
        limit_s = UNREACHED_WITH_JOBS_S if self.job_pool.is_busy else UNREACHED_S
        if self.scope.idle_exit_s is None or unreached_s < limit_s:
            return
        raise TransientError(
            f"the supervisor ends: it could not reach the bucket for {unreached_s:.0f} s",
            hint="jobs go on without it; when the bucket is back, run: tpuctl supervisor run",
        )

    async def _scan(self) -> None:
        """First the leases, then the heartbeats: who has a lease had a heartbeat before."""
        found = await asyncio.to_thread(self._leases)
        ours = [lease for lease in found if self._is_ours(lease)]
        if {lease.holder for lease in ours} - {"", self.heartbeat_sender.holder}:
            await asyncio.to_thread(self.watcher.look, self.backends.store)
        before, self.known = self.known, {lease.job_id: lease for lease in found}
        self.job_pool.forget_except(self.known)
        for lease in ours:
            if lease != before.get(lease.job_id, lease):
                self.job_pool.hear(lease)
            await self.job_pool.consider(lease)

    def _leases(self) -> list[Lease]:
        return leasing.list_leases(self.backends.store, self.known, self._report_unreadable)

    def _report_unreadable(self, error: DamagedStateError) -> None:
        """Report a lease that cannot be read, once: it is found again at every look."""
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
                await self.job_pool.save_progress()
                await self.heartbeat_sender.leave()
        except TimeoutError:
            self.say("the heartbeat stays: the bucket does not answer")
