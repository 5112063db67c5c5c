"""Everything about one disturbed run that checks and causes look at, worked out once."""

from collections.abc import Sequence
from dataclasses import dataclass

from tpuctl.models.rehearsal.evidence import RunEvidence
from tpuctl.models.rehearsal.moment import Moment
from tpuctl.models.rehearsal.rehearse_spec import RehearseSpec
from tpuctl.operations.rehearse.judgement.observation.deterministic_values import (
    ReferenceValues,
    ValueDifference,
    differing_values,
    reference_values,
)
from tpuctl.operations.rehearse.judgement.observation.logged_steps import StepLog, logged_steps
from tpuctl.operations.rehearse.judgement.observation.object_events import object_deletions
from tpuctl.operations.rehearse.judgement.observation.observed_saves import (
    SaveLayout,
    checkpoint_prefix,
    save_layout,
)
from tpuctl.operations.rehearse.judgement.observation.resumptions import (
    Resumption,
    resumptions,
)
from tpuctl.operations.rehearse.judgement.observation.save_order import (
    OrderFinding,
    find_order_defects,
)


@dataclass(frozen=True, slots=True)
class ReferenceFacts:
    """What the undisturbed runs show."""

    runs: tuple[RunEvidence, ...]
    spec: RehearseSpec
    log: StepLog
    """Of the first run."""
    values: ReferenceValues
    layout: SaveLayout
    order: tuple[OrderFinding, ...]
    same_steps: bool
    """Every undisturbed run tells the same steps of the same workers."""
    examples_agree: bool
    """Every undisturbed run reads the same examples in the same steps."""

    @property
    def prefix_url(self) -> str:
        """Where the job saves, as a `gs://` URL; empty: not known."""
        return f"gs://{self.layout.prefix}".rstrip("/") if self.layout.prefix else ""

    @property
    def last_step(self) -> int | None:
        """The last step of the job."""
        return self.log.last_step()

    @property
    def interval_steps(self) -> int | None:
        """The steps from one save to the next; None: not known."""
        return self.layout.interval_steps


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What one disturbed run shows, beside the undisturbed ones."""

    moment: Moment
    run: RunEvidence
    reference: ReferenceFacts
    log: StepLog
    resumptions: tuple[Resumption, ...]
    differences: tuple[ValueDifference, ...]
    early_differences: tuple[ValueDifference, ...]
    """Those of the first attempt, before anything was resumed."""

    @property
    def disturbed_s(self) -> float | None:
        """When the last disturbance began; None: it never came."""
        return max((entry.time_s for entry in self.run.fired), default=None)

    @property
    def worst(self) -> Resumption | None:
        """The resumption that lost the most steps, or the last one where none tells."""
        known = [each for each in self.resumptions if each.lost_steps is not None]
        last = self.resumptions[-1] if self.resumptions else None
        return max(known, key=lambda each: each.lost_steps or 0, default=last)


def reference_facts(references: Sequence[RunEvidence], spec: RehearseSpec) -> ReferenceFacts:
    """Work out what undisturbed runs, of which there is at least one, show."""
    first = references[0]
    logs = [read_log(run, spec) for run in references]
    prefix = checkpoint_prefix(first)
    layout = save_layout(first.requests, prefix, (step.step for step in logs[0].steps))
    return ReferenceFacts(
        tuple(references),
        spec,
        logs[0],
        reference_values(logs, spec.metrics, spec.tolerance),
        layout,
        find_order_defects(layout.saves, object_deletions(first.requests)),
        all(_told(log) == _told(logs[0]) for log in logs),
        all(log.examples == logs[0].examples for log in logs),
    )


def run_facts(moment: Moment, run: RunEvidence, reference: ReferenceFacts) -> RunFacts:
    """Work out what one disturbed run shows."""
    spec = reference.spec
    log = read_log(run, spec)
    later = resumptions(run, log, reference.layout)
    compared = (reference.values, spec.tolerance)
    first_resumed = later[0].attempt if later else None
    early = [
        step for step in log.steps if first_resumed is not None and step.attempt < first_resumed
    ]
    return RunFacts(
        moment,
        run,
        reference,
        log,
        later,
        differing_values(log.steps, *compared),
        differing_values(early, *compared),
    )


def read_log(run: RunEvidence, spec: RehearseSpec) -> StepLog:
    """The steps that the lines of a run tell."""
    progress = run.job.spec.progress if run.job else None
    return logged_steps(run.lines, progress, spec.examples)


def _told(log: StepLog) -> frozenset[tuple[int, int]]:
    return frozenset((step.worker_id, step.step) for step in log.steps)
