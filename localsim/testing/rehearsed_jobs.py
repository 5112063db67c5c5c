"""Jobs that a test preempts at a moment: `tpuctl rehearse` runs and judges them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localsim.testing.job_runs import JobCloud
from localsim.testing.simulator_options import SimulatedCloudError

JUDGED = (0, 70, 71)
"""What `tpuctl rehearse` exits with when it has a report."""


@dataclass(frozen=True, slots=True)
class RehearsedJob:
    """What became of a job that was preempted at one moment."""

    moment: str
    judgement: str
    """`pass`, `warn`, `fail` or `unknown`."""
    resumed_from: int | None
    """The step that it went on from; None: unknown."""
    lost_steps: int | None
    cause: str | None
    """The defect that explains a failure, such as `optimizer-not-saved`."""
    explanation: str
    """One sentence: the cause, or else what the checks that failed have found."""
    document: dict[str, Any]
    """All of `tpuctl rehearse -o json`."""

    @property
    def survived(self) -> bool:
        """Whether the job came back right."""
        return self.judgement in ("pass", "warn")


def rehearse_job(cloud: JobCloud, file: str | Path, moment: str, seed: int) -> RehearsedJob:
    """Run a job file undisturbed and then preempted at a moment, in clouds of their own.

    Raises SimulatedCloudError when the file is refused or the undisturbed run is not right.
    """
    argv = ("rehearse", str(Path(file).absolute()), "--only", moment, "--seed", str(seed))
    ended = cloud.tpuctl(*argv, "-o", "json")
    if ended.exit_code not in JUDGED or not ended.out.strip():
        ended.check()
        raise SimulatedCloudError(f"tpuctl rehearse prints no report: {ended.err.strip()}")
    document = ended.json()
    if not document["verdicts"]:
        raise SimulatedCloudError(
            f"the undisturbed run is not right: {_why(document['reference'])}"
        )
    verdict = document["verdicts"][0]
    return RehearsedJob(
        moment=verdict["moment"]["name"],
        judgement=verdict["judgement"],
        resumed_from=verdict["resumed_from"],
        lost_steps=verdict["lost_steps"],
        cause=verdict["cause"],
        explanation=_why(verdict),
        document=document,
    )


def _why(verdict: dict[str, Any]) -> str:
    """The explanation of a verdict, or else what the checks behind it have found."""
    wrong = [check for check in verdict["checks"] if check["judgement"] in ("fail", "unknown")]
    found = "; ".join(f"{check['name']}: {check['evidence']}" for check in wrong)
    return str(verdict["explanation"]) or found
