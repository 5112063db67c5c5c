"""The jobs and services of one supervisor: taken, cared for, rested from, and let go."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from tpuctl.errors import DamagedStateError, NotFoundError, TpuctlError, TransientError
from tpuctl.jobs.interfaces import Backends, Clocks
from tpuctl.jobs.leases import job_steps
from tpuctl.jobs.leases import lease as leasing
from tpuctl.jobs.leases.fence import fenced_backends, lease_check
from tpuctl.jobs.leases.heartbeat import HeartbeatWatcher, beat_time_s
from tpuctl.jobs.leases.heartbeat_sender import HeartbeatSender
from tpuctl.jobs.leases.job_steps import JobStep
from tpuctl.jobs.leases.lease import Lease, LeaseLostError
from tpuctl.jobs.notifications.idle_watch import IdleWatch
from tpuctl.jobs.notifications.notification_sender import NotificationSender, no_secret_manager
from tpuctl.jobs.record import record_store as records
from tpuctl.jobs.record.status_text import with_trouble
from tpuctl.jobs.secrets.job_secrets import SecretCache
from tpuctl.jobs.services import service_store
from tpuctl.jobs.services.service_controller import ServiceController
from tpuctl.jobs.services.service_writer import ServiceWriter
from tpuctl.jobs.supervisor.controller import JobController, WrongHostError, waits_for_secrets
from tpuctl.jobs.supervisor.record_writer import RecordWriter
from tpuctl.jobs.workers.sample_tail import AgentSample
from tpuctl.models.inference.service_record import ServiceRecord
from tpuctl.models.job import JobRecord
from tpuctl.store import Store

UNRECORDED_S = 60.0
"""A lease without a record is a submission that was cut short."""
TROUBLE_S = 30.0
"""A job that could not be looked after is taken up again after this."""
RETRY_S = 1.0
AGAIN = f"it is tried again every {TROUBLE_S:.0f} s"


@dataclass(slots=True)
class JobPool:
    """One controller for each job and service that is held here, and notes about the others.

    A service goes by the id of its lease, `service/NAME`.
    """

    backends: Backends
    clocks: Clocks
    vault: SecretCache
    heartbeat_sender: HeartbeatSender
    watcher: HeartbeatWatcher
    say: Callable[[str], None]
    on_adopted: Callable[[str], None] = lambda _job_id: None
    """Called with the id of every job that is taken."""
    settled: Callable[[str], None] = lambda _job_id: None
    """Called with the id of every job that is settled."""
    may_run: Callable[[JobRecord, Sequence[str]], bool] = lambda _record, _command: False
    """Whether this machine's user submitted a job with that command of its `notify`."""
    chips_are_free: Callable[[AgentSample], bool] = lambda _sample: False
    """Whether no process held the chips of a worker as it was measured."""
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    controllers: dict[str, JobController] = field(default_factory=dict)
    """Of jobs."""
    services: dict[str, ServiceController] = field(default_factory=dict)
    given_up: set[str] = field(default_factory=set)
    """Jobs whose records another tpuctl must read."""
    resting: dict[str, float] = field(default_factory=dict)
    """Jobs that could not be looked after, and since when."""
    elsewhere: dict[str, float] = field(default_factory=dict)
    """Jobs that only another machine can begin, and since when they are left to it."""
    unrecorded: dict[str, float] = field(default_factory=dict)
    """Jobs with a lease and no record, and since when."""
    inherited_steps: dict[str, JobStep] = field(default_factory=dict)
    """What the heartbeats of dead holders told of jobs that are not in care here yet."""
    silences: dict[str, float] = field(default_factory=dict)
    """Since when nobody looked after a job that was taken here."""
    is_taking: bool = False
    """A lease is about to be taken."""
    bug: BaseException | None = None
    """The first error of a controller that is not one of tpuctl.errors: a bug of ours."""

    @property
    def is_holding(self) -> bool:
        """Whether leases are held, or are about to be: the heartbeat must be there before."""
        return bool(self.tasks or self.resting or self.is_taking)

    @property
    def is_busy(self) -> bool:
        """Whether there is a job to wait for."""
        return bool(self.tasks or self.resting or self.unrecorded)

    def newest_steps(self) -> Mapping[str, object]:
        """The newest step of each job that is held here, as the heartbeat has it."""
        inherited = {job_id: asdict(step) for job_id, step in self.inherited_steps.items()}
        return inherited | job_steps.steps_of(each.record for each in self.controllers.values())

    async def save_progress(self) -> None:
        """Write the steps that the heartbeat alone tells, before it goes."""
        for controller in self.controllers.values():
            with suppress(TpuctlError, LeaseLostError):
                await controller.record_writer.save_progress()

    def forget_except(self, known: Mapping[str, Lease]) -> None:
        """Forget notes about jobs that have no lease any more."""
        for of_jobs in (self.resting, self.elsewhere, self.unrecorded, self.inherited_steps):
            for job_id in of_jobs.keys() - known.keys():
                del of_jobs[job_id]
        self.silences = {job_id: at for job_id, at in self.silences.items() if job_id in known}

    async def consider(self, lease: Lease) -> None:
        """Take a job that nobody looks after; an error of this job is only reported."""
        if not self._is_free(lease):
            return
        self.is_taking = True
        try:
            await self._adopt(lease)
        except TransientError as error:
            self.say(f"{lease.job_id}: {error}")
        except TpuctlError as error:
            self.resting[lease.job_id] = self.clocks.monotonic()
            self.say(f"{lease.job_id}: {error}; {AGAIN}")
        finally:
            self.is_taking = False

    def hear(self, lease: Lease) -> None:
        """Note that the lease of a job here was written: to be noticed, or by who took it."""
        controller = self.controllers.get(lease.job_id) or self.services.get(lease.job_id)
        if controller is None:
            return
        if controller.record_writer.lease.is_same_hold(lease):
            controller.recheck()
        else:
            self._lose(lease.job_id)

    def abandon(self) -> None:
        """Cancel every controller: another supervisor took this one for dead."""
        for job_id in self.tasks:
            self._lose(job_id)
        self.resting.clear()

    async def reap(self, known: Mapping[str, Lease]) -> None:
        """Remove the controllers that have ended; a job whose controller failed rests."""
        for job_id, task in list(self.tasks.items()):
            if not task.done():
                continue
            del self.tasks[job_id]
            self.controllers.pop(job_id, None)
            self.services.pop(job_id, None)
            error = None if task.cancelled() else task.exception()
            if error is not None:
                await self._rest(job_id, known.get(job_id), error)

    # -------------------------------------------------------------- taking

    def _is_free(self, lease: Lease) -> bool:
        if lease.job_id in self.tasks or lease.job_id in self.given_up:
            return False
        since = self.resting.get(lease.job_id, self.elsewhere.get(lease.job_id))
        if since is not None and self.clocks.monotonic() - since < TROUBLE_S:
            return False
        return lease.holder == self.heartbeat_sender.holder or self.watcher.is_dead(lease.holder)

    async def _adopt(self, lease: Lease) -> None:
        job_id, store = lease.job_id, self.backends.store
        try:
            record = await asyncio.to_thread(_load_record, store, lease)
        except NotFoundError:
            await self._wait_for_record(lease)
            return
        except DamagedStateError as error:
            self.given_up.add(job_id)
            self.resting.pop(job_id, None)
            self.say(f"{job_id}: given up: {error}")
            return
        self.unrecorded.pop(job_id, None)
        if isinstance(record, JobRecord) and waits_for_secrets(self.vault, record):
            if lease.holder == self.heartbeat_sender.holder:
                await asyncio.to_thread(leasing.release, store, lease)
            self._leave_to_others(job_id, self.vault.missing_reason(record))
        elif taken := await self._take_watched(lease, record):
            self.say(f"{job_id}: supervised here")
            await asyncio.to_thread(self.on_adopted, job_id)
            self.resting.pop(job_id, None)
            self.elsewhere.pop(job_id, None)
            self.tasks[job_id] = asyncio.create_task(self._care(taken))

    async def _take_watched(self, lease: Lease, record: JobRecord | ServiceRecord) -> Lease | None:
        """The lease in our hands as `_take_lease` gets it; since when nobody held it is noted."""
        if not isinstance(record, JobRecord) or not record.spec.notify:
            return await self._take_lease(lease)
        store, now_s = self.backends.store, self.clocks.now
        beaten_s = await asyncio.to_thread(beat_time_s, store, lease.holder)
        taken = await self._take_lease(lease)
        ours_s = await asyncio.to_thread(beat_time_s, store, self.heartbeat_sender.holder)
        since_s = record.submitted_s if lease.fence == 0 else record.left_s
        if since_s is None and beaten_s is not None and ours_s is not None:
            since_s = now_s() - (ours_s - beaten_s)
        if since_s is not None:
            self.silences[lease.job_id] = since_s
        return taken

    async def _take_lease(self, lease: Lease) -> Lease | None:
        """The lease in our hands; None when somebody was faster, or lives after all.

        Our own heartbeat is there first: a holder without one is taken for dead.
        """
        store, holder = self.backends.store, lease.holder
        if holder != self.heartbeat_sender.holder:
            await self._inherit_steps(holder)
            if not await asyncio.to_thread(self.watcher.delete_heartbeat, store, holder):
                return None
        if not self.heartbeat_sender.heartbeat.is_fresh():
            await self.heartbeat_sender.beat(self.abandon)
        if not self.heartbeat_sender.heartbeat.is_fresh():
            return None
        return await asyncio.to_thread(leasing.take, store, lease, self.heartbeat_sender.holder)

    async def _inherit_steps(self, holder: str) -> None:
        """Tell in our own heartbeat what a dead holder's tells, which is deleted next."""
        if not holder:
            return
        told = await asyncio.to_thread(job_steps.heartbeat_steps, self.backends.store, holder)
        if told:
            self.inherited_steps |= told
            await self.heartbeat_sender.beat(self.abandon)

    async def _wait_for_record(self, lease: Lease) -> None:
        """Wait for the record of a lease; withdraw one that has none for UNRECORDED_S seconds."""
        since = self.unrecorded.setdefault(lease.job_id, self.clocks.monotonic())
        if self.clocks.monotonic() - since < UNRECORDED_S:
            return
        store, job_id = self.backends.store, lease.job_id
        if await asyncio.to_thread(leasing.withdraw, store, lease):
            self.say(f"{job_id}: its submission was interrupted")
        if await asyncio.to_thread(_generation, store, lease) is not None:
            await asyncio.to_thread(leasing.renew_offer, store, job_id, lease.owner)

    def _leave_to_others(self, job_id: str, why: str) -> None:
        if job_id not in self.elsewhere:
            self.say(f"{job_id}: this supervisor does not look after it: {why}")
        self.elsewhere[job_id] = self.clocks.monotonic()
        self.resting.pop(job_id, None)

    # -------------------------------------------------------------- caring

    async def _care(self, lease: Lease) -> None:
        """Care for one job, through the absences of the bucket."""
        job_id = lease.job_id
        while True:
            try:
                await self._care_once(lease)
                self.say(f"{job_id}: settled")
                return
            except LeaseLostError:
                self.say(f"{job_id}: another supervisor took over")
                return
            except WrongHostError as why:
                await asyncio.to_thread(leasing.release, self.backends.store, lease)
                self._leave_to_others(job_id, str(why))
                return
            except TransientError as error:
                self.say(f"{job_id}: {error}")
                await self.clocks.sleep(RETRY_S)

    async def _care_once(self, lease: Lease) -> None:
        backends = fenced_backends(self.backends, lease, self.heartbeat_sender.heartbeat)
        if lease.service is not None:
            await self._care_for_service(backends, lease, lease.service)
            return
        stored = await asyncio.to_thread(records.load, backends.store, lease.job_id)
        told = self.inherited_steps.get(lease.job_id)
        stored = replace(stored, record=job_steps.with_step(stored.record, told))
        writer = RecordWriter(backends.store, lease, self.clocks, stored)
        if replica := stored.record.replica:
            writer.on_written = partial(self._wake_service, replica.service)
        controller = JobController(backends, self.clocks, writer, self.vault)
        controller.unsupervised_s = self.silences.pop(lease.job_id, None)
        if stored.record.spec.notify:
            controller.notifications = self._notification_sender(lease, controller.alarm.set)
            controller.idle_watch = IdleWatch(self.chips_are_free)
        self.controllers[lease.job_id] = controller
        self.inherited_steps.pop(lease.job_id, None)
        await controller.run_until_settled()
        await asyncio.to_thread(self._settle, backends, lease)

    def _notification_sender(self, lease: Lease, changed: Callable[[], None]) -> NotificationSender:
        store, heartbeat = self.backends.store, self.heartbeat_sender.heartbeat
        return NotificationSender(
            clocks=self.clocks,
            fence=lease.fence,
            vault=self.vault,
            confirm=lease_check(store, lease, heartbeat),
            read_secret=self.backends.read_secret or no_secret_manager,
            may_run=self.may_run,
            changed=changed,
        )

    async def _care_for_service(self, backends: Backends, lease: Lease, name: str) -> None:
        stored = await asyncio.to_thread(service_store.load, backends.store, name)
        writer = ServiceWriter(backends.store, lease, self.clocks, stored)
        controller = ServiceController(backends, self.clocks, writer, self._job_here, self.say)
        self.services[lease.job_id] = controller
        await controller.run_until_settled()
        await asyncio.to_thread(self._settle, backends, lease)

    def _wake_service(self, name: str) -> None:
        """Let a service that is held here see at once that the job of a replica has changed."""
        controller = self.services.get(leasing.service_lease_id(name))
        if controller is not None:
            controller.alarm.set()

    def _job_here(self, job_id: str) -> JobRecord | None:
        controller = self.controllers.get(job_id)
        return controller.record if controller else None

    def _settle(self, backends: Backends, lease: Lease) -> None:
        """Nobody needs to look after it any more, unless somebody has just begun it again."""
        leasing.drop(backends.store, lease)
        record = _open_record(backends.store, lease)
        if record is not None:
            if leasing.load_lease(backends.store, lease.job_id) is None:
                leasing.reoffer(backends.store, lease.job_id, record.owner, record.fence)
            return
        self.vault.forget(lease.job_id)
        self.settled(lease.job_id)

    def _lose(self, job_id: str) -> None:
        if not self.tasks[job_id].done():
            self.say(f"{job_id}: another supervisor took over")
            self.tasks[job_id].cancel()

    # -------------------------------------------------------------- trouble

    async def _rest(self, job_id: str, lease: Lease | None, error: BaseException) -> None:
        """One job's trouble, a bug of ours included, is not the other jobs' trouble."""
        self.resting[job_id] = self.clocks.monotonic()
        text = f"{str(error) or repr(error)}; {AGAIN}"
        self.say(f"{job_id}: {text}")
        if not isinstance(error, TpuctlError):
            self.bug = self.bug or error
        try:
            if lease is None or lease.service is None:
                await asyncio.to_thread(self._record_trouble, job_id, lease, text)
        except (TpuctlError, LeaseLostError) as unwritten:
            self.say(f"{job_id}: {unwritten}")

    def _record_trouble(self, job_id: str, lease: Lease | None, text: str) -> None:
        stored = records.load(self.backends.store, job_id)
        if lease is not None and stored.record.fence <= lease.fence:
            self.heartbeat_sender.heartbeat.check()
            told = with_trouble(stored.record, text, self.clocks.now())
            records.save(self.backends.store, told, stored.generation)


def _load_record(store: Store, lease: Lease) -> JobRecord | ServiceRecord:
    """What a lease is about; raises NotFoundError, DamagedStateError."""
    if lease.service is not None:
        return service_store.load(store, lease.service).record
    return records.load(store, lease.job_id).record


def _generation(store: Store, lease: Lease) -> int | None:
    if lease.service is not None:
        return service_store.generation(store, lease.service)
    return records.generation(store, lease.job_id)


def _open_record(store: Store, lease: Lease) -> JobRecord | ServiceRecord | None:
    """What a lease is about, unless that is settled."""
    try:
        record = _load_record(store, lease)
    except NotFoundError:
        if lease.service is None:
            raise
        return None
    return None if isinstance(record, JobRecord) and record.is_settled else record
