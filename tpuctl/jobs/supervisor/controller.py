"""Looks after one job that this supervisor holds the lease of, until it is settled."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tpuctl.errors import TpuctlError, TransientError
from tpuctl.jobs.interfaces import Backends, Clocks
from tpuctl.jobs.notifications import due_notifications
from tpuctl.jobs.notifications.idle_watch import IdleWatch
from tpuctl.jobs.notifications.notification_sender import NotificationSender
from tpuctl.jobs.policy import actions
from tpuctl.jobs.policy.actions import Action, RecordStockout
from tpuctl.jobs.policy.observation import JobObservation, SliceRefusal, ZoneHealth
from tpuctl.jobs.policy.reconcile import ReconcileStep, reconcile
from tpuctl.jobs.secrets.job_secrets import SecretCache
from tpuctl.jobs.slices import context_limits, final_state, slice_api, zone_health
from tpuctl.jobs.slices import switch_setup as switch
from tpuctl.jobs.slices.pending_calls import REPEAT_AFTER_S, PendingCalls
from tpuctl.jobs.slices.slice_watcher import SliceWatcher, wait_until_set
from tpuctl.jobs.supervisor.capacity_reporter import CapacityReporter
from tpuctl.jobs.supervisor.record_writer import RecordWriter
from tpuctl.jobs.supervisor.signs_of_life import SignsOfLife
from tpuctl.jobs.workers import gang as gangs
from tpuctl.jobs.workers.gang import Gang
from tpuctl.jobs.workers.installation import StartInputs
from tpuctl.models.job import Attempt, AttemptState, JobRecord, SwitchProof, WorkerReport

TURN_S = 0.5
STEADY_TURN_S = 2.0
SLICE_CHANGES = (actions.RequestSlice, actions.DeleteSlice)


class WrongHostError(Exception):
    """The job needs secrets that another machine has: that one must go on with it."""


@dataclass(slots=True)
class JobController:
    """Observes, reconciles, writes and acts for one job."""

    backends: Backends
    """Behind the fence of the lease."""
    clocks: Clocks
    record_writer: RecordWriter
    vault: SecretCache
    notifications: NotificationSender | None = None
    """Sends the job's messages; None where it has no `notify`."""
    idle_watch: IdleWatch | None = None
    unsupervised_s: float | None = None
    """Since when nobody looked after the job before; None: somebody did."""
    alarm: asyncio.Event = field(default_factory=asyncio.Event)
    """Something was seen: take the next turn now."""
    gang: Gang | None = None
    refusals: dict[str, SliceRefusal] = field(default_factory=dict)
    """What the API said to the creation of a request, by its name."""
    is_steady: bool = False
    """Every worker runs and answers."""
    saved_proof: SwitchProof | None = None
    """What was last kept of the slice's own switch."""
    zone_health: Mapping[tuple[str, str], ZoneHealth] | None = None
    zone_health_s: float | None = None
    """When the health of the zones was last read."""
    recorded_stockouts: set[RecordStockout] = field(default_factory=set)
    signs_of_life: SignsOfLife = field(default_factory=SignsOfLife)
    """Of the gang."""
    pending_calls: PendingCalls = field(init=False)
    slice_watcher: SliceWatcher = field(init=False)
    capacity_reporter: CapacityReporter = field(init=False)

    def __post_init__(self) -> None:
        self.pending_calls = PendingCalls(self.clocks.monotonic)
        self.slice_watcher = SliceWatcher(
            self.backends,
            self.clocks,
            record=lambda: self.record,
            is_steady=lambda: self.is_steady,
            changed=self.alarm.set,
        )
        self.capacity_reporter = CapacityReporter(
            self.backends.store, self.vault.host_id, self.record
        )

    @property
    def record(self) -> JobRecord:
        """The record as this controller has it, which may be ahead of the bucket."""
        return self.record_writer.record

    async def run_until_settled(self) -> None:
        """Take turns until the job is settled.

        Raises LeaseLostError, WrongHostError, TransientError and its kin.
        """
        await self.record_writer.claim(self._with_unsupervised_notification)
        # Only now: what an earlier holder has asked for is seen before anything is created.
        looking = asyncio.create_task(self.slice_watcher.keep_watching())
        try:
            while not (self.record.is_settled and not self._has_notifications()):
                try:
                    await self._turn()
                except TransientError as error:  # the bucket is away: the workers are kept
                    self.slice_watcher.report_trouble(str(error))
                    await self.clocks.sleep(REPEAT_AFTER_S)
                await wait_until_set(self.alarm, STEADY_TURN_S if self.is_steady else TURN_S)
                self.alarm.clear()
                if looking.done():
                    looking.result()
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            if self.gang is not None:
                await self.gang.close()
            if self.notifications is not None:
                await self.notifications.close()

    def recheck(self) -> None:
        """Read the record at once: somebody has changed it."""
        self.record_writer.recheck()
        self.alarm.set()

    async def _turn(self) -> None:
        await self.record_writer.check_for_changes()
        await self._refresh_zone_health()
        await self._look_for_signs_of_life()
        lacks = self.vault.missing_reason(self.record)
        step = await self._step(lacks)
        record = self._with_notifications(step.record)
        await self._close_ended_gang(record)
        if self.record_writer.is_news(record):
            await self.record_writer.save(record)
            self.slice_watcher.look_now()
        elif self.record_writer.is_due(record):
            await self.record_writer.save(record)
        else:
            self.record_writer.keep(record)
        self._send_notifications()
        if waits_for_secrets(self.vault, self.record):
            raise WrongHostError(lacks)
        # A zone that does not answer keeps no other one waiting.
        self.pending_calls.has_many = self.record.spec.search.at_once > 1
        changes = [each for each in step.actions if isinstance(each, SLICE_CHANGES)]
        await asyncio.gather(*map(self._try, changes))
        for action in step.actions:
            if action not in changes:
                await self._try(action)
        await self._save_proof()
        await self.capacity_reporter.report(self.record)
        self._update_steady()

    async def _step(self, lacks: str) -> ReconcileStep:
        """One step; and again with what decides, when it would end an attempt."""
        before, seen = self.record, self._observed(lacks)
        step = reconcile(before, seen)
        attempt = final_state.ending_attempt(before, step.record)
        if attempt is None:
            return step
        seen = await asyncio.to_thread(
            final_state.with_final_state, self.backends, before, attempt, seen
        )
        return reconcile(before, seen)

    async def _look_for_signs_of_life(self) -> None:
        """Ask the bucket for what workers cannot tell while none of them is reached."""
        gang, now_s = self.gang, self.clocks.monotonic()
        if gang is None or not self.signs_of_life.is_due(gang.reports(), now_s):
            return
        store, job_id = self.backends.store, self.record.job_id
        await asyncio.to_thread(self.signs_of_life.look, store, job_id, gang.attempt, now_s)

    def _excused_s(self, reports: Sequence[WorkerReport]) -> float | None:
        """The same as a time of the clock of observations."""
        monotonic_s = self.clocks.monotonic()
        excused_s = self.signs_of_life.note(reports, monotonic_s)
        return None if excused_s is None else self.clocks.now() - (monotonic_s - excused_s)

    def _observed(self, lacks: str) -> JobObservation:
        seen, attempt, gang = self.slice_watcher.observation, self.record.attempt, self.gang
        number = attempt.number if attempt else 0
        if not seen.is_of(attempt):  # the nodes of an earlier attempt, or of a request that lost
            seen = replace(seen, node=None, node_checked_s=0.0, queued_resource=None)
            seen = replace(seen, node_ids=(), worker_count=0, created_s=None)
            seen = replace(seen, failed_workers=frozenset())
        reports = gang.reports() if gang and gang.attempt == number else ()
        refusals = (*seen.refusals, *self.refusals.values())
        self.capacity_reporter.hear(refusals)
        return replace(
            seen,
            now_s=self.clocks.now(),
            workers=reports,
            excused_s=self._excused_s(reports),
            zone_health=self.zone_health,
            blocked_by=lacks,
            refusals=refusals,
        )

    async def _refresh_zone_health(self) -> None:
        now_s = self.clocks.now()
        if zone_health.is_due(self.record, self.zone_health_s, now_s):
            backends, record = self.backends, self.record
            self.zone_health = await asyncio.to_thread(zone_health.read, backends, record, now_s)
            self.zone_health_s = now_s

    def _update_steady(self) -> None:
        attempt = self.record.attempt
        running = attempt is not None and attempt.state == AttemptState.RUNNING
        reports = self.gang.reports() if self.gang is not None else ()
        are_heard = bool(reports) and all(report.unreachable_s == 0 for report in reports)
        was_steady, self.is_steady = self.is_steady, running and are_heard
        if was_steady and not self.is_steady:
            self.slice_watcher.look_now()

    # -------------------------------------------------------------- messages about the job

    def _with_unsupervised_notification(self, record: JobRecord) -> JobRecord:
        if self.unsupervised_s is None:
            return record
        now_s = self.clocks.now()
        causes = due_notifications.unsupervised_notification(record, self.unsupervised_s, now_s)
        return due_notifications.with_notifications(record, causes, now_s)

    def _with_notifications(self, record: JobRecord) -> JobRecord:
        """The record after a step, with the messages that are due and what became of others."""
        if self.notifications is None:
            return record
        now_s = self.clocks.now()
        noted = self.notifications.noted(record, now_s)
        told = due_notifications.with_due_notifications(self.record, noted, now_s)
        return due_notifications.with_notifications(
            told, due_notifications.idle_notification(told, self._idle_text()), now_s
        )

    def _idle_text(self) -> str:
        """What is to be said of chips that a running program does not use; empty without any."""
        gang, attempt = self.gang, self.record.attempt
        if self.idle_watch is None or gang is None or attempt is None:
            return ""
        if attempt.state != AttemptState.RUNNING or gang.attempt != attempt.number:
            return ""
        return self.idle_watch.look(attempt.number, gang.newest_samples())

    def _send_notifications(self) -> None:
        """Send what the bucket has by now, and nothing else."""
        if self.notifications is not None:
            self.notifications.forget(self.record)
            self.notifications.send(self.record)

    def _has_notifications(self) -> bool:
        return any(each.is_open for each in self.record.notifications)

    # -------------------------------------------------------------- the workers

    async def _close_ended_gang(self, record: JobRecord) -> None:
        """The logs are complete before the record says that the attempt has ended."""
        gang = self.gang
        if gang is None or record.attempts[gang.attempt - 1].state != AttemptState.ENDED:
            return
        self.gang = None
        try:
            await gang.save_tails(self.backends, self.clocks.sleep)
        finally:
            await gang.close()

    async def _attach(self, attempt: Attempt) -> None:
        found = self.slice_watcher.observation
        if self.gang is not None or not found.nodes or not found.is_of(attempt):
            return
        if not self.pending_calls.is_due(f"attach {attempt.number}"):
            return
        for node in found.nodes:
            add_key = partial(slice_api.add_ssh_key, self.backends, node)
            await self.pending_calls.answer(f"add key to {node.name}", add_key)
        config = switch.switch_config(self.backends, self.record, attempt)
        inputs = StartInputs(self.record_writer.lease.fence, self._secrets(), config)
        self.signs_of_life = SignsOfLife()
        self.gang = gangs.connect_gang(
            self.backends, self.record, found.nodes, inputs, self.clocks, self.alarm.set
        )

    def _secrets(self) -> Mapping[str, str] | None:
        """None where they are not known: what runs goes on without them, and nothing is begun."""
        return None if self.vault.missing_reason(self.record) else self.vault.values(self.record)

    async def _save_proof(self) -> None:
        reports = self.gang.reports() if self.gang is not None else ()
        proof = reports[0].switch if reports else None
        if proof is None or proof == self.saved_proof:
            return
        self.saved_proof = proof
        try:
            now_s = self.clocks.now()
            await asyncio.to_thread(switch.save_proof, self.backends.store, proof, now_s)
        except TpuctlError as error:  # the next slice proves it again
            self.slice_watcher.report_trouble(str(error))

    # -------------------------------------------------------------- the actions

    async def _try(self, action: Action) -> None:
        try:
            await self._perform(action)
        except TpuctlError as error:  # it is tried again
            self.slice_watcher.report_trouble(str(error))

    async def _perform(self, action: Action) -> None:
        fence, calls = self.record_writer.lease.fence, self.pending_calls
        match action:
            case actions.ConnectWorkers(attempt):
                await self._attach(attempt)
            case actions.StartWorkers() if self.gang is not None:
                await self.gang.start(fence)
            case actions.StopWorkers() as stop if self.gang is not None:
                await self.gang.stop(fence, dump=stop.dump)
            case actions.RequestSlice(attempt) if calls.is_due(f"request {attempt.node}"):
                await self._request(attempt)
            case actions.DeleteSlice(zone, name) if calls.is_due(f"delete {name}"):
                delete = partial(slice_api.delete_slice, self.backends.tpu, zone, name)
                await calls.answer(f"delete {name}", delete)
                self.slice_watcher.look_now()
            case actions.RecordStockout() as seen if seen not in self.recorded_stockouts:
                self.recorded_stockouts.add(seen)
                now_s, store = self.clocks.now(), self.backends.store
                await asyncio.to_thread(
                    zone_health.record_stockout, store, self.record, seen, now_s
                )
            case _:
                return

    async def _request(self, attempt: Attempt) -> None:
        """Ask for a slice, unless the context may not cost it now: then it is asked for later."""
        what, calls = f"request {attempt.node}", self.pending_calls
        excess = partial(context_limits.excess_of_request, self.backends, self.record, attempt)
        if self.backends.check_limit and (why := await calls.answer(f"limit {what}", excess)):
            self.slice_watcher.report_trouble(why)
            calls.postpone(what, context_limits.RECHECK_S)
            return
        request = partial(slice_api.request_slice, self.backends, self.record, attempt)
        self.refusals.pop(attempt.node, None)
        if refusal := await calls.answer(what, request):
            self.refusals[attempt.node] = refusal
        self.slice_watcher.look_now()


def waits_for_secrets(vault: SecretCache, record: JobRecord) -> bool:
    """Whether the job is to begin and needs secrets that only another machine has."""
    attempt = record.attempt
    runs = attempt is not None and attempt.state in (AttemptState.RUNNING, AttemptState.STOPPING)
    has_end = record.is_ended or record.cancel_requested_s is not None
    return vault.is_on_other_host(record) and not (runs or has_end or record.unwanted)
