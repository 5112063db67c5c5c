"""What was observed of one run of a job in a rehearsal."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tpuctl.models.job import JobRecord
from tpuctl.models.job_log import LogLine
from tpuctl.models.rehearsal.request_log import StorageRequest


@dataclass(frozen=True, slots=True)
class FiredEntry:
    """An entry of the timeline that has happened."""

    name: str
    """Its `name` in the timeline."""
    time_s: float
    """Simulated seconds since 1970."""
    request: int
    """The number of the storage request that it waited for; 0: none."""


@dataclass(frozen=True, slots=True)
class CheckpointCheck:
    """What `checkpoint verify` finds below the prefix after the end of a run."""

    format: str
    """`tpuctl`, `orbax`, `dcp`, `safetensors`; empty: a format that tpuctl does not know."""
    good_steps: tuple[int, ...] = ()
    bad_steps: tuple[int, ...] = ()
    problem: str = ""
    """What is wrong with the first bad step, or why nothing could be verified."""


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """Everything that a verdict is drawn from; it is stored with the run as JSON."""

    job: JobRecord | None
    """The record at the end; None: the job was not accepted."""
    exit_code: int
    """What `tpuctl job wait` returned; 41: the time of the run was over."""
    error: str
    """The error of the submission or of the wait, one line; empty: none."""
    lines: tuple[LogLine, ...]
    """Every line of every worker and attempt, in the order of each worker."""
    requests: tuple[StorageRequest, ...]
    """Those of the job's buckets, in the order in which they began."""
    fired: tuple[FiredEntry, ...]
    objects: Mapping[str, int] = field(default_factory=dict)
    """What the buckets hold after the end, without tpuctl's own: `bucket/name` -> bytes."""
    checkpoint: CheckpointCheck | None = None
    """None: the job has no prefix of checkpoints."""
    leftovers: tuple[str, ...] = ()
    """What exists after the end and should not: `node us-west4-a/x-1`, `queued resource ...`."""
    began_s: float = 0.0
    """When the simulator was ready, and when all was collected: seconds since 1970, real time."""
    ended_s: float = 0.0
    peak_rss_bytes: int = 0
    """The most memory that the processes of the run used together; 0: unknown."""
