"""What the rules look at, and what they find."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tpuctl.metrics.samples import WorkerSamples
from tpuctl.models.job import Attempt, AttemptOutcome, AttemptState, JobRecord
from tpuctl.models.job_log import LogLine
from tpuctl.models.node import Node
from tpuctl.models.worker_numbers import format_ranges

FAILED_OUTCOMES = frozenset(AttemptOutcome) - {
    AttemptOutcome.SUCCEEDED,
    AttemptOutcome.CANCELLED,
    AttemptOutcome.PREEMPTED,
}


class Finding(NamedTuple):
    """One thing that is wrong, with the numbers that say so and the command to run next."""

    name: str
    """The name of the rule or of the known error, for programs."""
    workers: tuple[int, ...]
    """Which workers it is about; none: the whole job or node."""
    sentence: str
    evidence: str
    command: str


class ChipUser(NamedTuple):
    """A process that holds the chips of a worker."""

    text: str
    """Such as `pid 4711 of root: python3 train.py`."""
    since_s: float
    job: str = ""
    """The job that it belongs to."""


class Saving(NamedTuple):
    """The checkpoints of a job that are still there: medians, in seconds."""

    saves: int
    wait_s: float
    """How long the program waits for a save."""
    interval_s: float
    """From one save to the next."""


@dataclass(frozen=True, slots=True)
class Observation:
    """All that is known of a job or of a node at one moment."""

    now_s: float
    """The time of the moment by our clock."""
    series: Sequence[WorkerSamples] = ()
    """The newest samples of each worker of the node, or of the newest attempt."""
    job: JobRecord | None = None
    node: Node | None = None
    """The node that was asked about; None where a job was."""
    zone: str = ""
    """The zone of the context: a command about a node elsewhere names that."""
    is_live: bool = False
    """The workers were asked now: who has told nothing is silent."""
    usd_per_hour: float | None = None
    is_used: bool | None = None
    """Whether an open job has the node; None: not known."""
    kept_nodes: Sequence[str] = ()
    """READY nodes that an ended job has requested for itself and not deleted."""
    holders: Mapping[int, Sequence[ChipUser]] = field(default_factory=dict)
    awaited: frozenset[int] = frozenset()
    """Workers that have been asked only just now, and have told nothing yet."""
    unreached: Mapping[int, str] = field(default_factory=dict)
    """Workers that did not answer, and why."""
    clock_off_s: Mapping[int, float] = field(default_factory=dict)
    """By how much a worker's clock is ahead of ours, at least; behind it is negative."""
    log_written_s: float | None = None
    """When a line of the newest attempt last came into the bucket."""
    recent_lines: Sequence[LogLine] = ()
    """The end of one worker's log, while its program runs."""
    saving: Saving | None = None
    has_stacks: bool = False
    log_ends: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """The last lines of each worker of the failed attempt."""

    @property
    def noun(self) -> str:
        """The noun of the commands that are about it."""
        return "node" if self.node else "job"

    @property
    def name(self) -> str:
        """The node's name, or the job's id."""
        if self.node:
            return self.node.name
        return self.job.job_id if self.job else ""

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt of the job."""
        return self.job.attempt if self.job else None

    @property
    def is_working(self) -> bool:
        """Whether somebody pays for its chips so that a program uses them now."""
        if self.job is None:
            return True
        attempt = self.attempt
        return (
            attempt is not None and attempt.state == AttemptState.RUNNING and not self.job.is_ended
        )

    @property
    def failed_attempt(self) -> Attempt | None:
        """The attempt by which the job failed, or after which it waits; None while one works."""
        if self.job is None or self.is_working:
            return None
        ended = (each for each in reversed(self.job.attempts) if each.outcome is not None)
        newest = next(ended, None)
        return newest if newest and newest.outcome in FAILED_OUTCOMES else None

    def command(self, verb: str, workers: Iterable[int] = (), rest: str = "") -> str:
        """A command of tpuctl about the node or the job, with the workers that it is about."""
        numbers = format_ranges(workers)
        name = self.placed(self.name) if self.node else self.name
        words = ["tpuctl", self.noun, verb, name]
        words += ["--worker", numbers] if numbers else []
        return " ".join([*words, rest] if rest else words)

    def placed(self, node: str) -> str:
        """A node as it is typed, with `--zone` unless it is in that of the context."""
        owner = self.node or self.attempt
        if owner is None or self.zone in ("", owner.zone):
            return node
        return f"{node} --zone {owner.zone}"

    def node_of(self, worker_id: int) -> tuple[str, int]:
        """The node that a worker belongs to, and its number there."""
        attempt = self.attempt
        if self.node or attempt is None:
            return self.name, worker_id
        in_slice = max(1, attempt.worker_count // attempt.slices)
        return attempt.nodes[min(worker_id // in_slice, attempt.slices - 1)], worker_id % in_slice


def who(workers: Sequence[int]) -> str:
    """`worker 3`, `workers 0-2,5`."""
    return f"worker{'s' * (len(workers) != 1)} {format_ranges(workers)}"
