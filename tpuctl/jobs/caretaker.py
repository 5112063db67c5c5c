"""Looks after one job that this supervisor holds the lease of, until it is settled."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from tpuctl.errors import PreconditionError, TpuctlError
from tpuctl.jobs import gang as gangs
from tpuctl.jobs import lease as leasing
from tpuctl.jobs import record as records
from tpuctl.jobs import world
from tpuctl.jobs.actions import Action, Attach, DeleteSlice, RequestSlice, Start, Stop
from tpuctl.jobs.gang import Gang, Pace
from tpuctl.jobs.lease import Lease
from tpuctl.jobs.observed import Observed, Refusal
from tpuctl.jobs.ports import Outside
from tpuctl.jobs.reconcile import reconcile
from tpuctl.jobs.record import Stored
from tpuctl.jobs.story import recovered
from tpuctl.jobs.world import Sky
from tpuctl.models.job import Attempt, AttemptState, JobRecord, WorkerReport

TURN_S = 0.5
LOOK_FAST_S = 0.5
LOOK_SLOW_S = 5.0
RECHECK_S = 1.0
PROGRESS_S = 30.0
AGAIN_S = 1.0
"""An action that has not shown its effect is repeated no sooner than this."""


class LeaseLostError(Exception):
    """Another supervisor looks after the job now."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """Time, injected."""

    now: Callable[[], float]
    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]


@dataclass(slots=True)
class Caretaker:
    """The observe, reconcile, write, act loop of one job."""

    outside: Outside
    lease: Lease
    clocks: Clocks
    stored: Stored
    """The record as it stands here, and the generation that the bucket has."""
    saved: JobRecord | None = None
    """The record as it was last written."""
    alarm: asyncio.Event = field(default_factory=asyncio.Event)
    """Something was seen: take the next turn now."""
    stale: asyncio.Event = field(default_factory=asyncio.Event)
    """Something was done: look again now."""
    sky: Sky = Sky()
    gang: Gang | None = None
    refusal: Refusal | None = None
    saved_s: float = 0.0
    checked_s: float = 0.0
    acted: dict[str, float] = field(default_factory=dict)

    async def care(self) -> None:
        """Until the job is settled; raises LeaseLostError, TransientError."""
        looking = asyncio.create_task(self._keep_looking())
        try:
            await self._claim()
            while not self.stored.record.is_settled:
                await self._turn()
                await _is_set_within(self.alarm, TURN_S)
                self.alarm.clear()
                if looking.done():
                    looking.result()
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            await self._let_go()
        await asyncio.to_thread(leasing.drop, self.outside.store, self.lease.job_id)

    async def _claim(self) -> None:
        """The first write under our fence: from here on an earlier holder's writes fail."""
        if self.stored.record.fence > self.lease.fence:
            raise LeaseLostError
        await self._save(replace(recovered(self.stored.record), fence=self.lease.fence))

    async def _turn(self) -> None:
        await self._hear_cancel()
        step = reconcile(self.stored.record, self._observed())
        if self._has_ended(step.record):
            await self._close_gang()
        if self._is_worth_saving(step.record):
            await self._save(step.record)
            self.stale.set()
        else:
            self.stored = Stored(step.record, self.stored.generation)
        for action in step.actions:
            await self._do(action)

    def _observed(self) -> Observed:
        attempt = self.stored.record.attempt
        sky = self.sky
        current = attempt is not None and sky.attempt == attempt.number
        gang = self.gang if attempt and self.gang and self.gang.attempt == attempt.number else None
        return Observed(
            now_s=self.clocks.now(),
            requests=sky.requests,
            node=sky.node_state if current else None,
            node_checked_s=sky.checked_s if current else 0.0,
            worker_count=len(sky.node.workers) if current and sky.node else 0,
            queued_resource=sky.node.queued_resource if current and sky.node else None,
            workers=gang.reports() if gang else (),
            refusal=self.refusal,
            trouble=sky.trouble,
        )

    # -------------------------------------------------------------- the record

    async def _save(self, record: JobRecord) -> None:
        try:
            self.stored = await asyncio.to_thread(
                records.save, self.outside.store, record, self.stored.generation
            )
        except PreconditionError:
            await self._reread(record)
            return await self._save(self._merged(record))
        self.saved, self.saved_s = record, self.clocks.monotonic()
        return None

    async def _reread(self, record: JobRecord) -> None:
        self.stored = await asyncio.to_thread(records.load, self.outside.store, record.job_id)
        if self.stored.record.fence > self.lease.fence:
            raise LeaseLostError

    def _merged(self, record: JobRecord) -> JobRecord:
        """Ours, with the one thing that somebody without the lease may write."""
        return replace(record, cancel_requested_s=self.stored.record.cancel_requested_s)

    async def _hear_cancel(self) -> None:
        """A record that changed under us carries a cancellation, or another supervisor's fence."""
        if self.clocks.monotonic() - self.checked_s < RECHECK_S:
            return
        self.checked_s = self.clocks.monotonic()
        mine = self.stored
        found = await asyncio.to_thread(records.generation, self.outside.store, mine.record.job_id)
        if found != mine.generation:
            await self._reread(mine.record)
            self.stored = Stored(self._merged(mine.record), self.stored.generation)

    def _is_worth_saving(self, record: JobRecord) -> bool:
        if self.saved is None or _without_progress(record) != _without_progress(self.saved):
            return True
        return record != self.saved and self.clocks.monotonic() - self.saved_s >= PROGRESS_S

    # -------------------------------------------------------------- the workers

    def _has_ended(self, record: JobRecord) -> bool:
        if self.gang is None:
            return False
        attempt = record.attempts[self.gang.attempt - 1]
        return attempt.state == AttemptState.ENDED

    async def _close_gang(self) -> None:
        """The logs are complete before the record says that the attempt has ended."""
        gang, self.gang = self.gang, None
        if gang is not None:
            await gang.save_tails(self.outside, self.clocks.sleep)
            await gang.close()

    async def _let_go(self) -> None:
        if self.gang is not None:
            await self.gang.close()

    async def _attach(self, attempt: Attempt) -> None:
        node = self.sky.node
        if self.gang is not None or node is None or self.sky.attempt != attempt.number:
            return
        if not self._is_due(f"attach {attempt.number}"):
            return
        await asyncio.to_thread(world.let_us_in, self.outside, node)
        pace = Pace(self.clocks.monotonic, self.clocks.sleep, self.alarm.set)
        self.gang = gangs.gather(self.outside, self.stored.record, attempt, node, pace)

    # -------------------------------------------------------------- the actions

    async def _do(self, action: Action) -> None:
        """Carry out one action; what fails for now is tried again."""
        try:
            await self._perform(action)
        except TpuctlError as error:
            self.sky = replace(self.sky, trouble=str(error))

    async def _perform(self, action: Action) -> None:
        match action:
            case Attach(attempt):
                await self._attach(attempt)
            case Start() if self.gang is not None:
                await self.gang.start()
            case Stop(_, grace_s) if self.gang is not None:
                await self.gang.stop(grace_s)
            case RequestSlice(attempt) if self._is_due(f"request {attempt.node}"):
                self.refusal = await asyncio.to_thread(
                    world.request_slice, self.outside, self.stored.record, attempt
                )
                self.stale.set()
            case DeleteSlice(zone, name) if self._is_due(f"delete {name}"):
                await asyncio.to_thread(world.delete_slice, self.outside.tpu, zone, name)
                self.stale.set()
            case _:
                return

    def _is_due(self, what: str) -> bool:
        now = self.clocks.monotonic()
        if now - self.acted.get(what, -AGAIN_S) < AGAIN_S:
            return False
        self.acted[what] = now
        return True

    # -------------------------------------------------------------- the pace

    async def _keep_looking(self) -> None:
        while True:
            self.stale.clear()
            self.sky = await asyncio.to_thread(
                world.look, self.outside.tpu, self.stored.record, self.clocks.now
            )
            self.alarm.set()
            looked_s = self.clocks.monotonic()
            while self.clocks.monotonic() - looked_s < self._look_every_s():
                if await _is_set_within(self.stale, LOOK_FAST_S):
                    break

    def _look_every_s(self) -> float:
        """Often while something moves, seldom while every worker runs and answers."""
        attempt = self.stored.record.attempt
        calm = attempt is not None and attempt.state == AttemptState.RUNNING and self.gang
        if calm and all(report.unreachable_s == 0 for report in calm.reports()):
            return LOOK_SLOW_S
        return LOOK_FAST_S


async def _is_set_within(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait for an event, but not for long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            return await event.wait()
    return False


def _without_progress(record: JobRecord) -> JobRecord:
    """A record without what changes all the time while a job runs well."""
    attempts = tuple(
        replace(
            attempt,
            last_step=0,
            workers=tuple(_without_steps(report) for report in attempt.workers),
        )
        for attempt in record.attempts[-1:]
    )
    return replace(record, attempts=(*record.attempts[:-1], *attempts))


def _without_steps(report: WorkerReport) -> WorkerReport:
    return replace(report, step=None, metrics={}, rss_bytes=None, unreachable_s=0.0, message="")
