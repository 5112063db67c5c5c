"""Jobs that a test runs in a simulated cloud, from their file to their end."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from localsim.testing.simulator_options import SimulatedCloudError
from localsim.testing.tpuctl_command import TpuctlResult

DEADLINE_EXIT = 41
"""What `tpuctl job wait` exits with when its time is over."""


class JobCloud(Protocol):
    """The cloud that a job runs in."""

    def tpuctl(self, *argv: str) -> TpuctlResult:
        """Run a command."""


@dataclass(frozen=True, slots=True)
class JobAttempt:
    """One try of a job, on slices of its own."""

    number: int
    outcome: str
    """`succeeded`, `preempted`, `failed`, …"""
    reason: str
    zone: str
    resumed_step: int
    """The step of the checkpoint that it began with; 0: none."""
    last_step: int
    """The last step that its log says; 0: none."""


@dataclass(frozen=True, slots=True)
class JobRun:
    """A job that has ended."""

    job_id: str
    state: str
    """`SUCCEEDED`, `FAILED` or `CANCELLED`."""
    exit_code: int
    """What `tpuctl job wait` exits with: 0 when it succeeded, 71 when the program failed."""
    log: str
    """What its workers wrote, each line with `[WORKER]` before it."""
    attempts: tuple[JobAttempt, ...]
    document: dict[str, Any]
    """All of `tpuctl job describe -o json`."""

    @property
    def resumed_step(self) -> int:
        """The step that the last attempt went on from; 0: it began at the beginning."""
        return self.attempts[-1].resumed_step if self.attempts else 0

    @property
    def preemptions(self) -> int:
        """How many attempts ended with a preemption."""
        return sum(attempt.outcome == "preempted" for attempt in self.attempts)


def submit_job(cloud: JobCloud, file: str | Path) -> str:
    """Submit a job file and return the id of the job. Raises SimulatedCloudError."""
    submitted = cloud.tpuctl("job", "submit", str(Path(file).absolute()), "-o", "json").check()
    return str(submitted.json()[0]["id"])


def wait_for_job(cloud: JobCloud, job_id: str, timeout_s: float) -> JobRun:
    """Wait for the end of a job and collect what it did. Raises SimulatedCloudError."""
    waited = cloud.tpuctl("job", "wait", job_id, "--timeout", f"{timeout_s:g}s", "-o", "json")
    if waited.exit_code == DEADLINE_EXIT:
        raise SimulatedCloudError(f"job {job_id} has not ended after {timeout_s:g} s")
    document = dict(cloud.tpuctl("job", "describe", job_id, "-o", "json").check().json())
    log = cloud.tpuctl("job", "logs", job_id).check().out
    attempts = tuple(map(_attempt, document["attempt_list"]))
    return JobRun(job_id, document["state"], waited.exit_code, log, attempts, document)


def _attempt(document: dict[str, Any]) -> JobAttempt:
    return JobAttempt(
        number=document["number"],
        outcome=document["outcome"],
        reason=document["reason"],
        zone=document["zone"],
        resumed_step=document["resume_step"] or 0,
        last_step=document["last_step"] or 0,
    )
