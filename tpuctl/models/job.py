"""A job: what was asked for, and the record of what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tpuctl.models import option_rules
from tpuctl.models.inference.predict_spec import PredictSpec
from tpuctl.models.inference.serve_spec import ReplicaOf, ServeSpec
from tpuctl.models.node import Provisioning
from tpuctl.models.notify.notification import Notification
from tpuctl.models.notify.notify_spec import NotifyTarget
from tpuctl.models.search import Candidate, Place, Search
from tpuctl.models.slice_options import SliceOptions


class JobState(StrEnum):
    """The state of a job, as `job list` shows it."""

    QUEUED = "QUEUED"
    WAITING = "WAITING"
    PREPARING = "PREPARING"
    RUNNING = "RUNNING"
    RECOVERING = "RECOVERING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


ENDED_JOB_STATES = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})


class AttemptState(StrEnum):
    """The state of one attempt: from the request for a slice to the end of its programs."""

    WAITING = "WAITING"
    PREPARING = "PREPARING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    ENDED = "ENDED"


class AttemptOutcome(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PREEMPTED = "preempted"
    LOST = "lost"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    HUNG = "hung"
    """No line and no step for `timeouts.hang`: stopped after a dump of every stack."""
    STOCKOUT = "stockout"
    """The zone had no capacity, or no quota was left: another zone, or a later try."""
    BLOCKED = "blocked"
    """Others held the addresses that the slice needs: another region, or a later try."""
    REFUSED = "refused"


class Phase(StrEnum):
    """The phase of one worker, as its agent reports it."""

    CONNECTING = "connecting"
    PREPARING = "preparing"
    PREPARED = "prepared"
    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"


class Teardown(StrEnum):
    """When a job's own slice is deleted after the job has ended."""

    ALWAYS = "always"
    ON_SUCCESS = "on-success"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Resources:
    """The slice that a job asks for; None where the submitter decides."""

    accelerators: str | None = None
    topology: str | None = None
    zones: tuple[str, ...] = ()
    """To be tried in this order; none: the submitter's zone."""
    use_spot: bool = False
    num_slices: int = 1
    runtime_version: str | None = None
    options: SliceOptions = SliceOptions()
    alternatives: tuple[str, ...] = ()
    """Accelerator types to take in place of `accelerators`, the preferred one first."""

    @property
    def provisioning(self) -> Provisioning:
        """How the slices' capacity is obtained."""
        tiers = {"spot"} if self.use_spot else self.options.given
        return option_rules.provisioning(frozenset(tiers))

    @property
    def types(self) -> tuple[str, ...]:
        """Every accelerator type that will do, the preferred one first."""
        return (self.accelerators, *self.alternatives) if self.accelerators else ()


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Where the program keeps its checkpoints, and how many of them."""

    dir: str
    keep: int = 3
    digest: str = ""
    """`sha256` to have every block of a step digested, "" for its checksum alone."""


@dataclass(frozen=True, slots=True)
class Restart:
    """Which ends of an attempt are followed by another attempt."""

    preemption: bool = True
    failure: int = 0
    exit_codes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long each part may take, in seconds; None: without limit."""

    queue_s: float | None = None
    setup_s: float = 20 * 60.0
    run_s: float | None = None
    hang_s: float | None = None
    """Without a log line and without a step of any worker."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What all slices of a job together may use; None: without limit."""

    hours: float | None = None
    """Hours in which its slices are READY: two attempts of an hour each count as two."""
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class Ray:
    """The Ray cluster that a job's attempt runs its program in."""

    version: str | None = None
    """The version that every worker must have; None: whichever it has."""
    dashboard: bool = False


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job file, checked and completed."""

    name: str
    run: str
    setup: str | None = None
    image: str | None = None
    """The container image that `setup` and `run` run in; none: on the worker itself."""
    shell: tuple[str, ...] = ()
    """The program that gets `setup` and `run` after -c, and its options; none: bash."""
    requires: str | None = None
    progress: str | None = None
    """The name of a trainer, or the regular expression that finds the step in its lines."""
    cache: str | None = None
    """A gs:// URL for what the program compiles, brought back before the next start."""
    workdir: str | None = None
    """An absolute path on the submitter's machine."""
    envs: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Variable -> where its value is: `env:NAME`, `file:PATH` or `sm://projects/P/secrets/S`."""
    file_mounts: Mapping[str, str] = field(default_factory=dict)
    """Absolute path on every worker -> `gs://BUCKET/PREFIX`, copied there before setup."""
    resources: Resources = Resources()
    checkpoints: Checkpoints | None = None
    restart: Restart = Restart()
    timeouts: Timeouts = Timeouts()
    budget: Budget = Budget()
    teardown: Teardown = Teardown.ALWAYS
    search: Search = Search()
    ray: Ray | None = None
    """The cluster whose driver `run` is, on worker 0 alone; none: `run` is run on every worker."""
    serve: ServeSpec | None = None
    """How `run` answers requests, where it is the engine of a service."""
    predict: PredictSpec | None = None
    """The files that a batch job predicts, by a `run` that tpuctl brings."""
    notify: tuple[NotifyTarget, ...] | None = None
    """Who gets messages about the job; None: the file does not say it, the context decides."""


class ProofResult(StrEnum):
    """Whether a slice can delete itself, as its dead man's switch has tried."""

    ARMED = "armed"
    REFUSED = "refused"
    """Its service account may not read the job or delete the slice: an owner must grant it."""
    UNKNOWN = "unknown"
    """Nothing was learnt: an API did not answer, or the switch did not run."""


@dataclass(frozen=True, slots=True)
class SwitchProof:
    """What the dead man's switch of a slice found out as it was armed."""

    result: ProofResult
    text: str
    """One line for people, such as `may not: 403 PERMISSION_DENIED`."""


@dataclass(frozen=True, slots=True)
class SaveWait:
    """When a program went on after it had waited for a checkpoint, and for how long altogether."""

    after_s: float
    """From the start of the program."""
    waited_s: float
    """By all waits up to then."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """The newest report of one worker of an attempt, with the fields of its agent's status."""

    worker_id: int
    phase: str = Phase.CONNECTING
    stage: str | None = None
    """The stage that ended the run: `fetch`, `mounts`, `secrets`, `setup`, `ray` or `run`."""
    exit_status: int | None = None
    signal: int | None = None
    stopped: bool = False
    """The agent was asked to stop the program before it ended."""
    terminated: bool = False
    """The worker itself was shutting down (the agent got SIGTERM)."""
    preempted: bool = False
    """The worker's metadata server announced its preemption."""
    notice: str | None = None
    """Why a worker that still runs will not for long: `preempted` or `terminated`."""
    closed: bool = False
    """The agent has ended, and its logs are in the bucket."""
    step: int | None = None
    resume_step: int | None = None
    step_times: Mapping[str, float] = field(default_factory=dict)
    """Step -> seconds from the start of the program until its report; the attempt keeps one."""
    save_waits: tuple[SaveWait, ...] = ()
    """When its program waited for checkpoints; the attempt has those of one worker."""
    metrics: Mapping[str, float | str] = field(default_factory=dict)
    rss_bytes: int | None = None
    unreachable_s: float = 0.0
    """For how long the worker has not answered after it once did."""
    ended_s: float | None = None
    """When the run ended, by the worker's clock."""
    ran_s: float | None = None
    """For how long the program ran, once it has ended."""
    active_s: float | None = None
    """When it last printed a line or told a step, by the worker's clock."""
    quiet_s: float = 0.0
    """For how long it has done neither, by the supervisor's clock."""
    last_lines: tuple[str, ...] = ()
    """The end of its log, once the run has ended or the worker was lost."""
    traceback: str = ""
    """The last Python traceback of a run that failed, the same for the same failure."""
    switch: SwitchProof | None = None
    """Of worker 0 of a slice; None before the proof."""
    message: str = ""


UNSEEN_S = 180.0
"""A request that was never seen may still appear for this long after it was given up: its create is
tried five times of 30 s by the client."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a job: a slice, its workers, and how it ended.

    While it waits for a slice, `zone`, `node` and `queued_resource` are those of the request that
    leads, and `others` has those beside it; with `chosen_s` they are those of the slice it has.
    """

    number: int
    zone: str
    node: str
    state: AttemptState
    owned: bool
    """The slice is the job's own: requested by it, and deleted by it."""
    accelerator_type: str = ""
    """Empty: that of the job's record."""
    queued_resource: str | None = None
    request_id: str | None = None
    slices: int = 1
    node_ids: tuple[int, ...] = ()
    """What the API calls the nodes for ever; their names may be used again."""
    worker_count: int = 0
    requested_s: float | None = None
    accepted_s: float | None = None
    others: tuple[Candidate, ...] = ()
    """Every other request that was made for this attempt, what became of it included."""
    chosen_s: float | None = None
    """When its slice was chosen: from then on no other request can win."""
    provisioning_s: float | None = None
    """When its request was first seen to be served: its slice is being made."""
    ready_s: float | None = None
    started_s: float | None = None
    first_step_s: float | None = None
    """When a worker first told a step; None before, and where the program reports none."""
    step_times: Mapping[str, float] = field(default_factory=dict)
    """Step -> seconds from `started_s` until a worker told it: the first two, the last, some."""
    save_waits: tuple[SaveWait, ...] = ()
    """The waits of the worker that waited longest for its checkpoints; some of many waits."""
    ran_s: float | None = None
    """For how long the programs ran, once those of all workers have ended by themselves."""
    stopping_s: float | None = None
    ended_s: float | None = None
    deleted_s: float | None = None
    outcome: AttemptOutcome | None = None
    reason: str = ""
    refusal: str = ""
    """For `refused`: the kind of the API's error, as tpuctl.errors names it (`usage`, …)."""
    resume_step: int = 0
    last_step: int = 0
    first_worker: int | None = None
    """The worker that failed or went silent first."""
    saved_s: float | None = None
    """When the newest checkpoint that was there as the attempt ended was written."""
    awaited_s: float | None = None
    """Since when it waits for nobody but workers that were never reached."""
    spent: bool = False
    """Its own slice is of no more use: it is deleted, whatever `teardown` says."""
    workers: tuple[WorkerReport, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The node, or the nodes of several slices in the order of their workers."""
        if self.slices == 1:
            return (self.node,)
        return tuple(f"{self.node}-{number}" for number in range(self.slices))

    @property
    def is_usable(self) -> bool:
        """Whether its slice was READY and can be used by the next attempt."""
        was_ready = self.ready_s is not None and self.deleted_s is None
        return was_ready and not self.spent and self.outcome != AttemptOutcome.PREEMPTED


class EventKind(StrEnum):
    """What an event of a job is about."""

    STATUS = "status"
    """The job's status text changed."""
    TROUBLE = "trouble"
    """Its supervisor could not look after it."""
    SWITCH = "switch"
    """Its slice cannot delete itself."""
    DELETED = "deleted"
    """A slice of the ended job is gone."""
    NOT_DELETED = "not-deleted"
    """A slice of the ended job could not be deleted yet."""
    NOT_NOTIFIED = "not-notified"
    """A target of `notify` did not get a message."""


@dataclass(frozen=True, slots=True)
class JobEvent:
    """A change of a job, as a line for people and a kind for programs."""

    time_s: float
    text: str
    kind: EventKind = EventKind.STATUS


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The whole state of a job, as it is kept in the bucket."""

    job_id: str
    spec: JobSpec
    owner: str
    submitted_s: float
    zone: str
    """The zone of the newest attempt; before the first, the one that is tried first."""
    accelerator_type: str
    """That of the newest attempt; before the first, the one that is tried first."""
    zones: tuple[str, ...] = ()
    """Every zone that may be tried, in order."""
    places: tuple[Place, ...] = ()
    """Every slice that may be asked for, in order; none: the type in each of the zones."""
    node: str | None = None
    """The slice that the submitter named; it is never torn down."""
    usd_per_hour: float | None = None
    """The price of all its slices together, by the list at submission; None: not known."""
    host_id: str = ""
    """The machine and context it was submitted from: only there its secrets are known."""
    retried_after: int = 0
    """Attempts up to this number do not count any more: somebody asked to try again."""
    workdir_sha256: str | None = None
    workdir_key: str | None = None
    """The object with its working directory, where that is not the job's own."""
    over_budget: bool = False
    """No limit of the context holds for its slices: somebody insisted."""
    replica: ReplicaOf | None = None
    """The service that the job is a replica of."""
    fence: int = 0
    left_s: float | None = None
    """When its last supervisor ended in order and left it to the next; None: it did not."""
    state: JobState = JobState.QUEUED
    why: str = "waiting for a supervisor"
    """Why it waits, what it does next or how it ended: the text of its newest STATUS event."""
    trouble: str | None = None
    """Why its supervisor cannot look after it now."""
    ended_by_attempt: int | None = None
    """The number of the attempt whose end ended the job; None: something else did."""
    wanted_since_s: float | None = None
    """Since when it wants a slice and has none."""
    next_s: float | None = None
    """When it goes on by itself, where it waits for a moment; `next_zone` is where."""
    next_zone: str = ""
    cancel_requested_s: float | None = None
    ended_s: float | None = None
    attempts: tuple[Attempt, ...] = ()
    events: tuple[JobEvent, ...] = ()
    notifications: tuple[Notification, ...] = ()
    """The messages about the job to the targets of its `notify`, the oldest first."""

    def target_label(self, number: int) -> str:
        """A target of `notify` in words; its number where a record names one that it lacks."""
        targets = self.spec.notify or ()
        known = targets[number].label if 0 <= number < len(targets) else ""
        return known or f"target {number}"

    @property
    def status_text(self) -> str:
        """The line about the job for people: the trouble of its supervisor, or else `why`."""
        return f"its supervisor has trouble: {self.trouble}" if self.trouble else self.why

    @property
    def is_ended(self) -> bool:
        """Whether the job will not run again; its slice may still be there."""
        return self.state in ENDED_JOB_STATES

    @property
    def is_settled(self) -> bool:
        """Whether the job has ended and every slice that it deletes is gone."""
        return self.is_ended and not self.unwanted

    @property
    def tries(self) -> tuple[Attempt, ...]:
        """The attempts since the job was submitted or tried again by hand: those that count."""
        return self.attempts[self.retried_after :]

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def unwanted(self) -> tuple[str, ...]:
        """Queued resources of the job's own that it no longer needs and has not deleted yet."""
        kept = self.kept
        names = {
            attempt.queued_resource
            for attempt in self.attempts
            if attempt.owned and attempt.queued_resource and attempt.deleted_s is None
        }
        names |= {
            other.name
            for attempt in self.attempts
            for other in attempt.others
            if other.deleted_s is None and not (other.is_open and self._searches(attempt))
        }
        return tuple(sorted(name for name in names if name and name != kept))

    def _searches(self, attempt: Attempt) -> bool:
        """Whether the attempt still waits for any of its requests."""
        is_newest = attempt is self.attempt and not self.is_ended
        return is_newest and attempt.state == AttemptState.WAITING

    @property
    def kept(self) -> str | None:
        """The queued resource that the job still uses or, once it has ended, was told to keep."""
        newest = self.attempt
        if newest is None or (not self.is_ended and newest.state != AttemptState.ENDED):
            return newest.queued_resource if newest else None
        policy = self.spec.teardown
        keep = policy == Teardown.NEVER or (
            policy == Teardown.ON_SUCCESS and self.state != JobState.SUCCEEDED
        )
        return newest.queued_resource if newest.is_usable and keep else None


def workers_text(workers: int) -> str:
    """`1 worker`, `4 workers`."""
    return f"{workers} worker{'s' * (workers != 1)}"
