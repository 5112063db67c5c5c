"""The samples of a job for TensorBoard, in a directory or a bucket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuctl.errors import NotFoundError
from tpuctl.metrics.exporters.tensorboard_runs import write_runs
from tpuctl.operations.metrics.job_metrics import job_metrics

if TYPE_CHECKING:
    from tpuctl.api.ssh.keys import Access
    from tpuctl.operations.jobs.events import JobRuntime


@dataclass(frozen=True, slots=True)
class WrittenEvents:
    """Where event files are, what was added, and a line for each sample that is missing."""

    logdir: str
    runs: int
    samples: int
    missing: list[str]


def write_event_files(
    runtime: JobRuntime, access: Access, name: str, logdir: str | None
) -> WrittenEvents:
    """Write all samples of a job as event files; those that are there are kept.

    Raises NotFoundError without the job, or when it has no samples.
    """
    found = job_metrics(runtime, access, name)
    if not any(each.samples for each in found.series):
        raise NotFoundError(
            f"job {found.job.job_id} has no samples yet",
            hint=f"run: tpuctl job describe {found.job.job_id}",
        )
    place = logdir or f"tensorboard/{found.job.job_id}"
    written = write_runs(runtime.store(place), found.series)
    return WrittenEvents(place, written.runs, written.samples, found.missing)
