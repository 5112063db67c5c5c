"""What a rehearsal concludes; the field names are the keys of its JSON."""

from dataclasses import dataclass
from enum import StrEnum

from tpuctl.models.rehearsal.moment import Moment
from tpuctl.models.rehearsal.run_history import RunHistory


class Judgement(StrEnum):
    """The answer to one question about a run."""

    PASS = "pass"  # noqa: S105 (not a password)
    WARN = "warn"
    """It is right, and could be better; it counts as passed."""
    FAIL = "fail"
    UNKNOWN = "unknown"
    """The run does not show it; it counts neither as passed nor as failed."""


class Cause(StrEnum):
    """The defect of the program that explains a failed moment. Public."""

    TORN_MARKER = "torn-marker"
    """The marker of a save is itself written in several parts, or empty first."""
    MARKER_BEFORE_DATA = "marker-before-data"
    MARKER_BEFORE_OTHER_WORKERS = "marker-before-other-workers"
    """A save is marked complete before every worker has written its part."""
    NOT_DURABLE = "not-durable"
    """A save is announced before its objects exist."""
    OPTIMIZER_NOT_SAVED = "optimizer-not-saved"
    DATA_ORDER_RESTARTS = "data-order-restarts"
    RANDOM_STATE_NOT_SAVED = "random-state-not-saved"
    SAME_OBJECT_FROM_SEVERAL_WORKERS = "same-object-from-several-workers"
    IGNORES_SIGTERM = "ignores-sigterm"
    RESUMES_INCOMPLETE_SAVE = "resumes-incomplete-save"
    """It resumes from the newest name, whether or not that save was complete."""
    WORKERS_DISAGREE = "workers-disagree"
    """After the resume, workers are at different steps, or fewer than before take part."""
    DELETES_OLD_STEP_FIRST = "deletes-old-step-first"
    NEVER_SAVES = "never-saves"
    SAVES_ONLY_AT_END = "saves-only-at-end"
    NEVER_RESUMES = "never-resumes"
    SAVES_ON_WORKER_DISK = "saves-on-worker-disk"
    NOT_DETERMINISTIC = "not-deterministic"


@dataclass(frozen=True, slots=True)
class Check:
    """One question about a run, its answer and the evidence for it."""

    name: str
    """Such as `came-back`, `values`, `steps-once`, `examples`, `checkpoint`, `leftovers`."""
    judgement: Judgement
    evidence: str
    """One plain sentence with the numbers or names that show it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the job at one moment."""

    moment: Moment
    judgement: Judgement
    """The worst of its checks that is not unknown; unknown when the moment never came."""
    checks: tuple[Check, ...]
    resumed_from: int | None = None
    """The step that it went on from; None: unknown. 0: from the beginning."""
    lost_steps: int | None = None
    save_interval_steps: int | None = None
    recovery_s: float | None = None
    """From the disturbance to the first step that had not been made before."""
    cost_usd: float | None = None
    """What the disturbance cost at list price, in slices that were READY for longer."""
    cause: Cause | None = None
    explanation: str = ""
    """One plain sentence on the cause, with the objects and steps that show it."""
    replay: str = ""
    """The command that runs this moment again, exactly."""
    state_dir: str = ""
    """Where its state is kept; empty: it was deleted."""
    wall_s: float = 0.0
    history: RunHistory | None = None
    """What happened when; None: the run was not seen."""


@dataclass(frozen=True, slots=True)
class ReferenceVerdict:
    """What the undisturbed runs show before any moment is tried."""

    judgement: Judgement
    checks: tuple[Check, ...]
    cause: Cause | None = None
    explanation: str = ""
    steps: int = 0
    saves: int = 0
    save_interval_steps: int | None = None
    prefix: str = ""
    """Where it saves: `gs://bucket/prefix`."""
    state_dir: str = ""
    """Where its state is kept; empty: it was deleted."""
    wall_s: float = 0.0
    history: RunHistory | None = None
    """What happened when in the first of them; None: it was not seen."""


@dataclass(frozen=True, slots=True)
class RehearsalReport:
    """The whole result of `tpuctl rehearse`."""

    job: str
    """The name of the job."""
    file: str
    seed: int
    reference: ReferenceVerdict
    verdicts: tuple[Verdict, ...]
    skipped: tuple[str, ...] = ()
    """Names of moments that were not run: the time was over, or the job has no such moment."""
    wall_s: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the reference and every moment passed, and none was left out for lack of time."""
        good = (Judgement.PASS, Judgement.WARN)
        judged = (self.reference.judgement, *(verdict.judgement for verdict in self.verdicts))
        return all(judgement in good for judgement in judged) and not self.skipped
