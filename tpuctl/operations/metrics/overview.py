"""All jobs and nodes of a context at one moment, with what is wrong and what they cost."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tpuctl.errors import TpuctlError
from tpuctl.metrics.findings.observation import Finding
from tpuctl.models.job import JobRecord, JobState
from tpuctl.models.node import FREE_STATES, Node
from tpuctl.operations.jobs import queries
from tpuctl.operations.jobs.events import JobRuntime
from tpuctl.operations.metrics.explain import explain_stored
from tpuctl.operations.slices import cost, spending
from tpuctl.operations.slices.flex_start import with_flex_start

FINDINGS_VALID_S = 30.0
"""How long findings of a running job are valid; its samples arrive every half an hour."""
JUDGED_ENDED = 5
"""How many of the newest failed jobs are judged again."""


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job, what it has cost and what is wrong with it."""

    job: JobRecord
    usd: float | None
    findings: Sequence[Finding] = ()


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """A node, what it costs now, and the open job that has it."""

    node: Node
    usd_per_hour: float | None
    job_id: str = ""


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything that the first page shows."""

    now_s: float
    jobs: Sequence[JobSummary]
    nodes: Sequence[NodeSummary]
    hidden: int
    """Jobs that ended long ago and are left out."""
    missing: Sequence[str]
    """A line for each part that could not be read."""

    @property
    def usd_per_hour(self) -> float | None:
        """What all nodes together cost now; None where a price is not known."""
        return total(each.usd_per_hour for each in self.nodes)

    @property
    def usd(self) -> float | None:
        """What the jobs that are shown have cost; None where a price is not known."""
        return total(each.usd for each in self.jobs)


def total(amounts: Iterable[float | None]) -> float | None:
    """The sum; None where one of them is not known."""
    known = list(amounts)
    return None if None in known else sum(each or 0.0 for each in known)


@dataclass(slots=True)
class Overviews:
    """Reads overviews one after the other, and remembers what was found wrong with each job."""

    runtime: JobRuntime
    _found: dict[tuple[str, JobState], tuple[float, Sequence[Finding]]] = field(
        default_factory=dict
    )

    def read(self) -> Overview:
        """The jobs that are open or ended lately, and every node; what cannot be read is named."""
        missing: list[str] = []
        jobs, nodes = self._jobs(missing), self._nodes(missing)
        shown = queries.recent_jobs(jobs)
        failed = [job.job_id for job in shown if job.state == JobState.FAILED][:JUDGED_ENDED]
        now_s = self.runtime.now()
        summaries = [
            JobSummary(
                job,
                spending.spending_of(job, now_s).usd,
                self.findings(job, missing) if not job.is_ended or job.job_id in failed else (),
            )
            for job in shown
        ]
        users = {
            node_id: job.job_id for job in jobs if job.attempt for node_id in job.attempt.node_ids
            if not job.is_settled
        }  # fmt: skip
        used = [NodeSummary(node, _price(node), users.get(node.node_id, "")) for node in nodes]
        return Overview(now_s, summaries, used, len(jobs) - len(shown), missing)

    def _jobs(self, missing: list[str]) -> list[JobRecord]:
        reading = queries.list_jobs(self.runtime)
        try:
            while True:
                missing.append(next(reading).text)
        except StopIteration as end:
            jobs: list[JobRecord] = end.value
            return jobs
        except TpuctlError as error:
            missing.append(str(error))
            return []

    def _nodes(self, missing: list[str]) -> list[Node]:
        try:
            nodes, unreachable = self.runtime.tpu.read_nodes()
        except TpuctlError as error:
            missing.append(str(error))
            return []
        missing += [f"zone {zone} does not answer" for zone in unreachable]
        return with_flex_start(self.runtime.tpu, nodes)

    def findings(self, job: JobRecord, missing: list[str]) -> Sequence[Finding]:
        """What is wrong with a job by its bucket, read again now and then."""
        key, now_s = (job.job_id, job.state), self.runtime.now()
        read_s, found = self._found.get(key, (0.0, ()))
        if now_s - read_s < FINDINGS_VALID_S or (job.is_ended and read_s):
            return found
        try:
            found = explain_stored(self.runtime, job).findings
        except TpuctlError as error:
            missing.append(f"job {job.job_id}: {error}")
        self._found[key] = now_s, found
        return found


def _price(node: Node) -> float | None:
    if node.state in FREE_STATES:
        return 0.0
    return cost.usd_per_hour(node.accelerator_type, node.zone, node.provisioning)
