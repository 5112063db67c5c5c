"""One run of a job on a cloud of its own, from an empty machine to the evidence."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from tpuctl.config import Context
from tpuctl.durable_directories import make_private
from tpuctl.errors import DeadlineError, TpuctlError, TransientError
from tpuctl.jobs.local import supervisor_lock
from tpuctl.jobs.record import record_store
from tpuctl.models.job import JobRecord, JobSpec
from tpuctl.models.rehearsal.evidence import RunEvidence
from tpuctl.network_policy import STORAGE_METADATA
from tpuctl.operations.jobs import submit, supervision
from tpuctl.operations.jobs.submit import JobRequest
from tpuctl.operations.local import local_cloud
from tpuctl.operations.local.local_cloud import SimulatorOptions
from tpuctl.operations.rehearse import run_buckets, run_evidence
from tpuctl.operations.rehearse.judgement.planned_moments import SUPERVISOR_ENTRY
from tpuctl.operations.rehearse.process_usage import watch_memory
from tpuctl.operations.rehearse.run_clients import RunClients
from tpuctl.operations.rehearse.run_cloud import RunCloud, start_cloud
from tpuctl.store.gcs.json_api import translate_errors

POLL_S = 0.1
TIMELINE_WAIT_S = 1
COLLECT_S = 120.0
"""For so long a bucket may fail when the evidence is collected."""
QUICK_CLOUD = {
    "acceptance_delay_s": 0.1,
    "provisioning_delay_s": 0.2,
    "deletion_delay_s": 0.05,
    "suspension_delay_s": 0.1,
}
"""Nobody learns anything from waiting for a simulated boot; a moment may say otherwise."""
T = TypeVar("T")


class RunStoppedError(Exception):
    """The rehearsal ends before this run does."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run runs, and what disturbs it."""

    name: str
    home: Path
    """Its directory, which is its TPUCTL_HOME."""
    file: Path
    spec: JobSpec
    data: Mapping[str, str]
    environ: Mapping[str, str]
    limit_s: float
    """The job is given up after this long."""
    python: Path | None = None
    scenario: Mapping[str, Any] = field(default_factory=dict)
    """With the `timeline`, if something is to happen."""
    kills_supervisor: bool = False
    """Whether the supervisor is killed when the timeline's entry of that name happens."""
    delay_s: float = 0.0
    """It begins that much later."""


@dataclass(frozen=True, slots=True)
class RunUsage:
    """How long the parts of a run took, in seconds, and what all of its processes used."""

    start_s: float
    """Until the cloud was ready."""
    submit_s: float
    """Until the job was in the bucket."""
    job_s: float
    """Until the job was settled."""
    collect_s: float
    close_s: float
    cpu_s: float

    @property
    def wall_s(self) -> float:
        """All of it."""
        return self.start_s + self.submit_s + self.job_s + self.collect_s + self.close_s


@dataclass(slots=True)
class RunHooks:
    """What a run tells, and what it listens to."""

    changed: Callable[[JobRecord], None] = lambda _job: None
    stop: threading.Event = field(default_factory=threading.Event)

    def pause(self, seconds: float) -> None:
        """Wait; raises RunStoppedError when the rehearsal is over."""
        if self.stop.wait(seconds):
            raise RunStoppedError


def carry_out_run(plan: RunPlan, hooks: RunHooks) -> tuple[RunEvidence, RunUsage]:
    """Run a job on a new cloud, and return what was observed of it.

    Raises LocalIOError and what a simulator's start does; RunStoppedError.
    """
    hooks.pause(plan.delay_s)
    marks = [time.monotonic()]

    def mark() -> None:
        marks.append(time.monotonic())

    make_private(plan.home)
    cloud = start_cloud(plan.home, _options(plan), plan.environ)
    try:
        clients = RunClients(plan.home, _context(cloud), plan.environ)
        began_s = time.time()
        mark()
        with watch_memory(cloud.pids) as memory, _killed_supervisor(plan, cloud):
            run_buckets.prepare_buckets(clients, plan.spec, plan.data)
            found, error = _submitted(clients, plan)
            mark()
            if found is not None:
                found, error = _settled(clients, found, plan, hooks, cloud.require_simulator)
        mark()
        control = local_cloud.control_api(cloud.line)
        evidence = _patiently(
            hooks,
            lambda: run_evidence.collect_evidence(clients, control, plan.spec, found, error),
        )
        evidence = run_evidence.with_times(evidence, began_s, time.time(), memory.bytes)
        run_evidence.save_evidence(plan.home, evidence)
        clients.close()
        mark()
    finally:
        cloud.close()
    mark()
    started, submitted, worked, collected, closed = (b - a for a, b in pairwise(marks))
    return evidence, RunUsage(started, submitted, worked, collected, closed, cloud.cpu_s)


def _options(plan: RunPlan) -> SimulatorOptions:
    scenario = plan.home / "scenario.yaml"
    scenario.write_text(json.dumps({**QUICK_CLOUD, **plan.scenario}, indent=1), "utf-8")
    return SimulatorOptions(
        scenario=scenario, offline=plan.spec.setup is None, python=plan.python, log_requests=True
    )


def _context(cloud: RunCloud) -> Context:
    return local_cloud.context_of(cloud.wait_until_ready())


def _submitted(clients: RunClients, plan: RunPlan) -> tuple[JobRecord | None, TpuctlError | None]:
    """The job as it was accepted, or why it was not."""
    try:
        job = _drained(submit.submit_job(clients, JobRequest(plan.file, spec=plan.spec)))
        home, name = clients.home, clients.context.name
        if plan.spec.secrets:
            _wait_for_supervisor(clients)
            list(supervision.hand_to_supervisor(clients, job))
        else:
            supervisor_lock.wake(home, name)
    except TpuctlError as error:
        return None, error
    return job, None


def _drained(steps: Iterator[Any]) -> JobRecord:
    """The value that a generator returns; what it yields is for people who watch."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            job: JobRecord = end.value
            return job


def _wait_for_supervisor(clients: RunClients) -> None:
    deadline = time.monotonic() + local_cloud.START_S
    while not supervisor_lock.is_locked(clients.home, clients.context.name):
        if time.monotonic() > deadline:
            raise DeadlineError("the supervisor of a run does not start")
        clients.sleep(POLL_S)


def _settled(
    clients: RunClients,
    job: JobRecord,
    plan: RunPlan,
    hooks: RunHooks,
    require_simulator: Callable[[], None],
) -> tuple[JobRecord, TpuctlError | None]:
    """The record when the job is settled, or after the time that it is given.

    A bucket that does not answer, as a moment may want it, is asked again until then.
    """
    deadline, generation = time.monotonic() + plan.limit_s, None
    while not job.is_settled:
        if time.monotonic() > deadline:
            text = f"the job is {job.state} after {plan.limit_s:.0f} s: {job.why}"
            return job, DeadlineError(text)
        with suppress(TransientError):
            if _generation(clients, job.job_id) != generation:
                stored = record_store.load(clients.store(), job.job_id)
                job, generation = stored.record, stored.generation
                hooks.changed(job)
                continue
        require_simulator()
        hooks.pause(POLL_S)
    return job, None


def _generation(clients: RunClients, job_id: str) -> int:
    """The record's generation now, asked once: the store itself would ask again for a minute,
    in which the rehearsal could not end. Raises TransientError."""
    key = quote(record_store.record_key(job_id), safe="")
    path = f"/storage/v1/b/{clients.context.bucket}/o/{key}?fields=generation"
    with translate_errors(f"job {job_id}"):
        answer = clients.session.send("GET", path, timeout=STORAGE_METADATA.timeout)
        return int(answer.json()["generation"])


def _patiently(hooks: RunHooks, call: Callable[[], T]) -> T:
    """What a call returns; it is made again for a while when the bucket does not answer."""
    deadline = time.monotonic() + COLLECT_S
    while True:
        try:
            return call()
        except TransientError:
            if time.monotonic() > deadline:
                raise
        hooks.pause(POLL_S)


@contextmanager
def _killed_supervisor(plan: RunPlan, cloud: RunCloud) -> Iterator[None]:
    """Kill the supervisor during the block, when the timeline says so, and start another one."""
    if not plan.kills_supervisor:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_kill_supervisor_once, args=(cloud, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _kill_supervisor_once(cloud: RunCloud, ended: threading.Event) -> None:
    control = local_cloud.control_api(cloud.line)
    while not ended.is_set():
        fired = run_evidence.fired_entries(control.timeline(0, TIMELINE_WAIT_S))
        if any(entry.name == SUPERVISOR_ENTRY for entry in fired):
            cloud.replace_supervisor()
            return
