"""Looks after one service that this supervisor holds the lease of, until it is deleted."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from tpuctl.errors import (
    DamagedStateError,
    NotFoundError,
    PreconditionError,
    TpuctlError,
    TransientError,
    UsageError,
)
from tpuctl.jobs import client
from tpuctl.jobs.interfaces import Backends, Clocks
from tpuctl.jobs.record import record_store
from tpuctl.jobs.services import replica_job, service_store
from tpuctl.jobs.services.engine_watcher import EngineWatcher
from tpuctl.jobs.services.proxy_watcher import ProxyWatcher
from tpuctl.jobs.services.reconcile_service import reconcile_service
from tpuctl.jobs.services.service_events import OVER_STATES
from tpuctl.jobs.services.service_observation import (
    CancelReplica,
    ServiceAction,
    ServiceObservation,
    SubmitReplica,
)
from tpuctl.jobs.services.service_writer import ServiceWriter
from tpuctl.jobs.slices.pending_calls import PendingCalls
from tpuctl.jobs.slices.slice_watcher import wait_until_set
from tpuctl.models.inference.service_record import Replica, ServiceRecord, ServiceState
from tpuctl.models.job import JobRecord

TURN_S = 0.5
LOOK_S = 2.0
"""Between two looks at the reports of proxies, and at a job that another supervisor has."""


@dataclass(slots=True)
class ServiceController:
    """Observes, reconciles, writes and acts for one service."""

    backends: Backends
    """Behind the fence of the lease."""
    clocks: Clocks
    record_writer: ServiceWriter
    job_here: Callable[[str], JobRecord | None] = lambda _job_id: None
    """The record of a job that this supervisor has, which may be ahead of the bucket."""
    say: Callable[[str], None] = lambda _line: None
    alarm: asyncio.Event = field(default_factory=asyncio.Event)
    """Something was seen: take the next turn now."""
    jobs: dict[str, tuple[int | None, JobRecord | None]] = field(default_factory=dict)
    """By id, the generation and the record that the bucket had; None: none."""
    refusals: dict[int, str] = field(default_factory=dict)
    trouble: str = ""
    """What was last said of what went wrong."""
    looked: float = float("-inf")
    pending_calls: PendingCalls = field(init=False)
    proxies: ProxyWatcher = field(init=False)
    engines: EngineWatcher = field(init=False)

    def __post_init__(self) -> None:
        self.engines = EngineWatcher(
            self.backends, self.clocks, changed=self.alarm.set, report=self._report
        )
        self.pending_calls = PendingCalls(self.clocks.monotonic)
        self.proxies = ProxyWatcher(self.clocks.monotonic)

    @property
    def record(self) -> ServiceRecord:
        """The record as it was last read or written."""
        return self.record_writer.record

    async def run_until_settled(self) -> None:
        """Take turns until the service is deleted, and its record with it.

        Raises LeaseLostError, TransientError and its kin.
        """
        await self.record_writer.claim()
        try:
            while self.record.state != ServiceState.DELETED:
                try:
                    await self.take_turn()
                except TransientError as error:  # the bucket is away: the replicas are kept
                    self._report(str(error))
                    await self.clocks.sleep(LOOK_S)
                await wait_until_set(self.alarm, TURN_S)
                self.alarm.clear()
            await asyncio.to_thread(self._remove)
        finally:
            await self.engines.close()

    def recheck(self) -> None:
        """Read the record at once: somebody has changed it."""
        self.record_writer.recheck()
        self.alarm.set()

    async def take_turn(self) -> None:
        """Observe, reconcile, write and act once. Raises LeaseLostError, TransientError."""
        await self.record_writer.check_for_changes()
        await self._look()
        before = self.record
        step = reconcile_service(before, self._observed())
        if step.record != before:
            if not await self.record_writer.save(step.record):
                self.alarm.set()  # the world is judged again by the record as it is now
                return
            self._say_events(before, step.record)
        for action in step.actions:
            await self._try(action)

    # -------------------------------------------------------------- what is seen

    async def _look(self) -> None:
        is_due = self.clocks.monotonic() - self.looked >= LOOK_S
        if is_due:
            self.looked = self.clocks.monotonic()
            store, name, now_s = self.backends.store, self.record.name, self.clocks.now()
            await asyncio.to_thread(self.proxies.look, store, name, now_s)
        for replica in self.record.replicas:
            await self._look_at_job(replica, is_due=is_due)
        await self._look_at_engines()

    async def _look_at_job(self, replica: Replica, *, is_due: bool) -> None:
        job_id = replica.job_id
        if (job := self.job_here(job_id)) is not None:
            self.jobs[job_id] = (None, job)
            return
        _, known = self.jobs.get(job_id, (None, None))
        if job_id in self.jobs and (not is_due or (known is not None and known.is_settled)):
            return
        try:
            self.jobs[job_id] = await asyncio.to_thread(self._load_job, job_id)
        except DamagedStateError as error:
            self._report(str(error))

    def _load_job(self, job_id: str) -> tuple[int | None, JobRecord | None]:
        store = self.backends.store
        found = record_store.generation(store, job_id)
        if found is None:
            return None, None
        if job_id in self.jobs and self.jobs[job_id][0] == found:
            return self.jobs[job_id]
        try:
            stored = record_store.load(store, job_id)
        except NotFoundError:
            return None, None
        return stored.generation, stored.record

    async def _look_at_engines(self) -> None:
        replicas = [
            (each, serve)
            for each in self.record.replicas
            if each.state not in OVER_STATES
            and (serve := self.record.revision_of(each).spec.serve) is not None
        ]
        await self.engines.look(replicas, self._known_jobs())

    def _known_jobs(self) -> dict[str, JobRecord | None]:
        return {job_id: job for job_id, (_, job) in self.jobs.items()}

    def _observed(self) -> ServiceObservation:
        ids = {replica.job_id for replica in self.record.replicas}
        self.jobs = {job_id: known for job_id, known in self.jobs.items() if job_id in ids}
        return ServiceObservation(
            now_s=self.clocks.now(),
            jobs=self._known_jobs(),
            slices=self.engines.slices(),
            refusals=self.refusals,
            proxies=self.proxies.live(),
        )

    # -------------------------------------------------------------- what is done

    async def _try(self, action: ServiceAction) -> None:
        try:
            await self._perform(action)
        except TpuctlError as error:  # it is tried again
            self._report(str(error))

    async def _perform(self, action: ServiceAction) -> None:
        replica = next(each for each in self.record.replicas if each.number == action.number)
        match action:
            case SubmitReplica() if self.pending_calls.is_due(f"submit {replica.job_id}"):
                await asyncio.to_thread(self._submit, replica)
            case CancelReplica() if self.pending_calls.is_due(f"cancel {replica.job_id}"):
                store, now_s = self.backends.store, self.clocks.now()
                job = await asyncio.to_thread(client.cancel, store, replica.job_id, now_s)
                self.jobs[replica.job_id] = (None, job)
            case _:
                return

    def _submit(self, replica: Replica) -> None:
        try:
            replica_job.submit_replica(self.backends, self.record, replica, self.clocks.now())
        except (UsageError, PreconditionError) as error:  # no other try would go better
            self.refusals[replica.number] = str(error)
        self.jobs.pop(replica.job_id, None)
        self.alarm.set()

    def _remove(self) -> None:
        """Delete what the bucket has of a service whose replicas are gone, its record last."""
        stored = self.record_writer.stored
        service_store.remove(self.backends.store, stored)

    # -------------------------------------------------------------- what is said

    def _say_events(self, before: ServiceRecord, record: ServiceRecord) -> None:
        known = set(before.events)
        for event in record.events:
            if event not in known:
                self.say(f"service {record.name}: {event.text}")

    def _report(self, trouble: str) -> None:
        """Say what went wrong, once: it is tried again all the time."""
        if trouble != self.trouble:
            self.trouble = trouble
            self.say(f"service {self.record.name}: {trouble}")
