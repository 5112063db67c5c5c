"""Looks after one job that this supervisor holds the lease of, until it is settled."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from tpuctl.errors import TpuctlError, TransientError
from tpuctl.jobs.policy.actions import (
    Action,
    Attach,
    DeleteSlice,
    NoteWeather,
    RequestSlice,
    Start,
    Stop,
)
from tpuctl.jobs.policy.observed import Observed, Refusal, Weather
from tpuctl.jobs.policy.reconcile import Step, reconcile
from tpuctl.jobs.ports import Clocks, Outside
from tpuctl.jobs.secrets.secrets import Vault
from tpuctl.jobs.slices import evidence, switch, weather, world
from tpuctl.jobs.slices.errands import AGAIN_S, Errands
from tpuctl.jobs.slices.lookout import Lookout, is_set_within
from tpuctl.jobs.supervisor.ledger import Ledger
from tpuctl.jobs.workers import gang as gangs
from tpuctl.jobs.workers.gang import Gang, Pace
from tpuctl.jobs.workers.installation import Given
from tpuctl.models.job import Attempt, AttemptState, JobRecord

TURN_S = 0.5
CALM_TURN_S = 2.0


class BetterElsewhereError(Exception):
    """The job can go on on the machine that knows its secrets, and not here."""


@dataclass(slots=True)
class Caretaker:
    """The observe, reconcile, write, act loop of one job."""

    outside: Outside
    """Behind the fence of the lease."""
    clocks: Clocks
    ledger: Ledger
    vault: Vault
    alarm: asyncio.Event = field(default_factory=asyncio.Event)
    """Something was seen: take the next turn now."""
    gang: Gang | None = None
    refusal: Refusal | None = None
    calm: bool = False
    """Every worker runs and answers."""
    switch: str = ""
    """What was last remembered of the slice's own switch."""
    weather: Mapping[str, Weather] | None = None
    weather_s: float | None = None
    """When the weather was asked for."""
    told: set[NoteWeather] = field(default_factory=set)
    errands: Errands = field(init=False)
    lookout: Lookout = field(init=False)

    def __post_init__(self) -> None:
        self.errands = Errands(self.clocks.monotonic)
        self.lookout = Lookout(
            self.outside,
            self.clocks,
            record=lambda: self.record,
            is_calm=lambda: self.calm,
            changed=self.alarm.set,
        )

    @property
    def record(self) -> JobRecord:
        """As it stands here."""
        return self.ledger.record

    async def care(self) -> None:
        """Until the job is settled.

        Raises LeaseLostError, BetterElsewhereError, TransientError and its kin.
        """
        await self.ledger.claim()
        # Only now: what an earlier holder has asked for is seen before anything is created.
        looking = asyncio.create_task(self.lookout.keep_looking())
        try:
            while not self.record.is_settled:
                await self._patient_turn()
                await is_set_within(self.alarm, CALM_TURN_S if self.calm else TURN_S)
                self.alarm.clear()
                if looking.done():
                    looking.result()
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            if self.gang is not None:
                await self.gang.close()

    def ring(self) -> None:
        """Somebody has changed the record: read it now."""
        self.ledger.ring()
        self.alarm.set()

    async def _patient_turn(self) -> None:
        """Through the absences of the bucket, without letting go of the workers."""
        try:
            await self._turn()
        except TransientError as error:
            self.lookout.trouble(str(error))
            await self.clocks.sleep(AGAIN_S)

    async def _turn(self) -> None:
        await self.ledger.hear_wishes()
        await self._hear_weather()
        lacks = self.vault.lacking(self.record)
        step = await self._step(lacks)
        if self._has_ended(step.record):
            await self._close_gang()
        if self.ledger.is_news(step.record):
            await self.ledger.save(step.record)
            self.lookout.stir()
        elif self.ledger.is_due(step.record):
            await self.ledger.save(step.record)
        else:
            self.ledger.keep(step.record)
        if waits_for_secrets(self.vault, self.record):
            raise BetterElsewhereError(lacks)
        for action in step.actions:
            await self._do(action)
        await self._remember_switch()
        self._note_calm()

    async def _step(self, lacks: str) -> Step:
        """One step; and again with what decides, when it would end an attempt."""
        before, seen = self.record, self._observed(lacks)
        step = reconcile(before, seen)
        attempt = evidence.ending(before, step.record)
        if attempt is None:
            return step
        seen = await asyncio.to_thread(evidence.with_evidence, self.outside, before, attempt, seen)
        return reconcile(before, seen)

    def _observed(self, lacks: str) -> Observed:
        attempt, sky, gang = self.record.attempt, self.lookout.sky, self.gang
        current = attempt is not None and sky.attempt == attempt.number
        joined = attempt is not None and gang is not None and gang.attempt == attempt.number
        node = sky.node if current else None
        return Observed(
            now_s=self.clocks.now(),
            requests=sky.requests,
            looked_s=sky.looked_s,
            node=sky.node_state if current else None,
            node_checked_s=sky.checked_s if current else 0.0,
            node_ids=sky.node_ids if current else (),
            worker_count=sky.worker_count if current else 0,
            queued_resource=node.queued_resource if node else None,
            workers=gang.reports() if gang and joined else (),
            weather=self.weather,
            lacks=lacks,
            refusal=sky.refusal or self.refusal,
            trouble=sky.trouble,
        )

    async def _hear_weather(self) -> None:
        now_s = self.clocks.now()
        if weather.is_due(self.record, self.weather_s, now_s):
            self.weather = await asyncio.to_thread(weather.read, self.outside, self.record, now_s)
            self.weather_s = now_s

    def _note_calm(self) -> None:
        attempt = self.record.attempt
        running = attempt is not None and attempt.state == AttemptState.RUNNING
        was_calm, self.calm = (
            self.calm,
            running
            and self.gang is not None
            and all(report.unreachable_s == 0 for report in self.gang.reports()),
        )
        if was_calm and not self.calm:
            self.lookout.stir()

    # -------------------------------------------------------------- the workers

    def _has_ended(self, record: JobRecord) -> bool:
        if self.gang is None:
            return False
        attempt = record.attempts[self.gang.attempt - 1]
        return attempt.state == AttemptState.ENDED

    async def _close_gang(self) -> None:
        """The logs are complete before the record says that the attempt has ended."""
        gang, self.gang = self.gang, None
        if gang is None:
            return
        try:
            await gang.save_tails(self.outside, self.clocks.sleep)
        finally:
            await gang.close()

    async def _attach(self, attempt: Attempt) -> None:
        sky = self.lookout.sky
        if self.gang is not None or not sky.nodes or sky.attempt != attempt.number:
            return
        if not self.errands.is_due(f"attach {attempt.number}"):
            return
        for node in sky.nodes:
            let_in = partial(world.let_us_in, self.outside, node)
            await self.errands.answer(f"let in {node.name}", let_in)
        pace = Pace(self.clocks.monotonic, self.clocks.sleep, self.alarm.set)
        told = switch.config(self.outside, self.record, attempt)
        given = Given(self.ledger.lease.fence, self._secrets(), told)
        self.gang = gangs.gather(self.outside, self.record, attempt, sky.nodes, pace, given)

    def _secrets(self) -> Mapping[str, str] | None:
        """None where they are not known: what runs goes on without them, and nothing is begun."""
        return None if self.vault.lacking(self.record) else self.vault.values(self.record)

    async def _remember_switch(self) -> None:
        reports = self.gang.reports() if self.gang is not None else ()
        said = reports[0].switch if reports else ""
        if not said or said == self.switch:
            return
        self.switch = said
        try:
            now_s = self.clocks.now()
            await asyncio.to_thread(switch.remember, self.outside.store, said, now_s)
        except TpuctlError as error:  # the next slice proves it again
            self.lookout.trouble(str(error))

    # -------------------------------------------------------------- the actions

    async def _do(self, action: Action) -> None:
        """Carry out one action; what fails for now is tried again."""
        try:
            await self._perform(action)
        except TpuctlError as error:
            self.lookout.trouble(str(error))

    async def _perform(self, action: Action) -> None:
        fence = self.ledger.lease.fence
        match action:
            case Attach(attempt):
                await self._attach(attempt)
            case Start() if self.gang is not None:
                await self.gang.start(fence)
            case Stop() as stop if self.gang is not None:
                await self.gang.stop(fence, stop.grace_s, dump=stop.dump)
            case RequestSlice(attempt) if self.errands.is_due(f"request {attempt.node}"):
                request = partial(world.request_slice, self.outside, self.record, attempt)
                self.refusal = await self.errands.answer(f"request {attempt.node}", request)
                self.lookout.stir()
            case DeleteSlice(zone, name) if self.errands.is_due(f"delete {name}"):
                delete = partial(world.delete_slice, self.outside.tpu, zone, name)
                await self.errands.answer(f"delete {name}", delete)
                self.lookout.stir()
            case NoteWeather() as seen if seen not in self.told:
                self.told.add(seen)
                now_s, store = self.clocks.now(), self.outside.store
                await asyncio.to_thread(weather.note, store, self.record, seen, now_s)
            case _:
                return


def waits_for_secrets(vault: Vault, record: JobRecord) -> bool:
    """Nothing can be done for the job here: it is to begin, and what it needs is elsewhere."""
    attempt = record.attempt
    runs = attempt is not None and attempt.state in (AttemptState.RUNNING, AttemptState.STOPPING)
    has_end = record.is_ended or record.cancel_requested_s is not None
    return vault.is_elsewhere(record) and not (runs or has_end or record.unwanted)
