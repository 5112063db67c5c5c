"""What is known of a job's slices, or of a node, while it is watched."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern

from tpuctl.metrics.chip_state import DUTY_CYCLE
from tpuctl.metrics.findings import host_rules, rules
from tpuctl.metrics.findings.observation import Finding, Observation
from tpuctl.metrics.samples import Sample, WorkerSamples, device_values
from tpuctl.models.job import JobRecord, Phase, WorkerReport
from tpuctl.models.node import FREE_STATES, Node
from tpuctl.operations.slices import cost, spending

KEPT = 120
"""Samples of a worker that are kept for its sparkline."""
GONE = "DELETED"
"""What is shown of a node that the API does not know any more."""
HISTORY_EVERY_S = 10.0
KEPT_HISTORY = 200
"""Half an hour, as far back as the rules look."""
RATE_S = 15.0
"""Steps are counted over this time."""


@dataclass(slots=True)
class WatchedWorker:
    """What is known of one worker now, and of the last minutes."""

    worker_id: int
    report: WorkerReport | None = None
    sample: Sample | None = None
    history: deque[Sample] = field(default_factory=lambda: deque(maxlen=KEPT_HISTORY))
    """A sample for each ten seconds, with what the program told."""
    duty_cycles: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    steps: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=KEPT))
    """When each step was first heard of."""

    @property
    def is_reporting(self) -> bool:
        """Whether its agent has reported."""
        return self.report is not None and self.report.phase != Phase.CONNECTING

    @property
    def step(self) -> int | None:
        """The newest step that its program told."""
        return self.report.step if self.report else None

    def steps_per_s(self, now_s: float) -> float | None:
        """How fast the steps came lately; None before the second one."""
        recent = [each for each in self.steps if each[0] > now_s - RATE_S]
        if len(recent) < 2:
            return 0.0 if len(self.steps) > 1 else None
        return (recent[-1][1] - recent[0][1]) / (recent[-1][0] - recent[0][0])

    @property
    def last_step(self) -> int | None:
        """The step that its program ends with, if it prints `steps=`."""
        told = self.report.metrics.get("steps") if self.report else None
        return int(told) if isinstance(told, float) and 0 < told < math.inf else None

    def left_s(self, now_s: float) -> float | None:
        """In how many seconds it is at its last step at the present rate, if that is known."""
        rate, last = self.steps_per_s(now_s), self.last_step
        if not rate or last is None or self.step is None:
            return None
        return max(0.0, (last - self.step) / rate)

    def take_report(self, report: WorkerReport, now_s: float) -> None:
        """Note what its agent reports."""
        self.report = report
        if report.step is not None and (not self.steps or self.steps[-1][1] != report.step):
            self.steps.append((now_s, report.step))

    def _told(self, now_s: float) -> dict[str, float]:
        """What the program told, by the names that an agent's samples have."""
        if not self.steps:
            return {}
        heard_s, step = self.steps[-1]
        rate = self.steps_per_s(now_s)
        paced = {} if rate is None else {"program.steps_per_s": rate}
        return {"program.step": step, "program.step_age_s": now_s - heard_s, **paced}

    def take_sample(self, sample: Sample, now_s: float) -> None:
        """Note what was measured."""
        self.sample = sample
        if not self.history or sample.time_s >= self.history[-1].time_s + HISTORY_EVERY_S:
            values = {**sample.values, **self._told(now_s)}
            # Each line of JSON has strings of its own: of 64 workers' half an hour 25 MiB.
            shared = {intern(name): value for name, value in values.items()}
            self.history.append(Sample(sample.time_s, shared))
        busy = device_values(sample, DUTY_CYCLE)
        if busy:
            self.duty_cycles.append(sum(busy) / len(busy))

    def take_past(self, samples: Sequence[Sample], old_s: float, now_s: float) -> None:
        """Note what was measured before; the newest of these samples is `old_s` old."""
        told = {
            int(each.values["program.step"]): each.time_s - each.values["program.step_age_s"]
            for each in reversed(samples)
            if {"program.step", "program.step_age_s"} <= each.values.keys()
        }
        first_s = self.history[0].time_s if self.history else math.inf
        before = [each for each in samples if each.time_s < first_s]
        since = [_with_step_age(each, told) for each in self.history]
        self.history = deque([*before, *since][-KEPT_HISTORY:], maxlen=KEPT_HISTORY)
        if told:
            offset_s = now_s - old_s - samples[-1].time_s
            steps = [(told[step] + offset_s, step) for step in sorted(told)]
            newer = [each for each in self.steps if each[1] > max(told)]
            self.steps = deque([*steps, *newer], maxlen=KEPT)


def _with_step_age(sample: Sample, told: Mapping[int, float]) -> Sample:
    """The sample with the age of its step, where it is known when that was told."""
    told_s = told.get(int(sample.values.get("program.step", -1)))
    if told_s is None:
        return sample
    return Sample(sample.time_s, {**sample.values, "program.step_age_s": sample.time_s - told_s})


@dataclass(slots=True)
class WatchedSlice:
    """A job with the slices it has now, or a node by itself."""

    name: str
    job: JobRecord | None = None
    node: Node | None = None
    workers: dict[int, WatchedWorker] = field(default_factory=dict)
    trouble: str = ""
    """Why its workers cannot be measured."""
    began_s: float = 0.0
    """Since when it is watched, in seconds of the epoch."""
    is_over: bool = False
    has_past: bool = False
    """Whether the samples from before the watching were read, as far as they can be."""

    @property
    def accelerator_type(self) -> str:
        """The type of its slices."""
        about = self.job or self.node
        return about.accelerator_type if about else ""

    @property
    def attempt_number(self) -> int:
        """The number of the job's newest attempt; 0 before the first, and for a node."""
        return self.job.attempt.number if self.job and self.job.attempt else 0

    @property
    def state(self) -> str:
        """The state of the job, or of the node."""
        if self.job is not None or self.node is None:
            return self.job.state if self.job else ""
        return GONE if self.is_over else self.node.state

    @property
    def usd_per_hour(self) -> float | None:
        """What it costs now; 0 while the job has no slice."""
        if self.job is not None:
            return spending.usd_per_hour(self.job) if spending.has_slice(self.job) else 0.0
        if self.node is None or self.is_over or self.node.state in FREE_STATES:
            return 0.0
        node = self.node
        return cost.usd_per_hour(node.accelerator_type, node.zone, node.provisioning)

    def usd_so_far(self, now_s: float) -> float | None:
        """What the job has cost."""
        return spending.spending_of(self.job, now_s).usd if self.job else None

    def worker(self, worker_id: int) -> WatchedWorker:
        """A worker by its number, from now on known."""
        return self.workers.setdefault(worker_id, WatchedWorker(worker_id))

    @property
    def is_known(self) -> bool:
        """Whether every worker that it has has told something, and its past is known."""
        if not self.has_past:
            return False
        attempt = self.job.attempt if self.job else None
        if self.job is not None and (attempt is None or attempt.started_s is None):
            return False
        expected = self.node.worker_count if self.node else attempt.worker_count if attempt else 0
        heard = [each for each in self.workers.values() if self.job is None or each.is_reporting]
        return len(heard) >= expected and all(each.sample for each in heard)

    def findings(self, now_s: float) -> list[Finding]:
        """What is wrong with it, as far as its samples show."""
        if self.is_over:
            return []
        series = [
            WorkerSamples(0, each.worker_id, list(each.history))
            for each in self.known_workers
            if each.history
        ]
        seen = Observation(
            now_s, series, self.job, self.node, is_live=True, usd_per_hour=self.usd_per_hour,
            awaited=self._awaited(now_s),
        )  # fmt: skip
        return rules.findings(seen)

    def _awaited(self, now_s: float) -> frozenset[int]:
        """The workers that have not answered since the watching began, while it is new.

        What is known of them from before may be half an hour old.
        """
        if now_s - self.began_s >= host_rules.SILENT_S:
            return frozenset()
        attempt = self.job.attempt if self.job else None
        expected = {*range(attempt.worker_count if attempt else 0), *self.workers}
        return frozenset(expected - {n for n, each in self.workers.items() if each.sample})

    @property
    def known_workers(self) -> list[WatchedWorker]:
        """Its workers in the order of their numbers."""
        return [self.workers[number] for number in sorted(self.workers)]
