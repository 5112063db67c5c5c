"""What the report of a rehearsal means for the exit code."""

from tpuctl.errors import JobFailedError, PartialFailureError, TpuctlError
from tpuctl.models.rehearsal.verdict import Judgement, RehearsalReport


def reference_error(report: RehearsalReport) -> TpuctlError | None:
    """Why the job cannot be rehearsed; None: it can."""
    if report.reference.judgement != Judgement.FAIL:
        return None
    return JobFailedError(f"job {report.job!r} cannot be rehearsed: {report.reference.explanation}")


def error_of(report: RehearsalReport) -> TpuctlError | None:
    """The error with which a rehearsal ends; None when every moment passed."""
    if (error := reference_error(report)) is not None:
        return error
    failed = [each for each in report.verdicts if each.judgement == Judgement.FAIL]
    if failed:
        return JobFailedError(
            f"job {report.job!r} does not survive {len(failed)} of {len(report.verdicts)} moments",
            hint=f"run: {failed[0].replay}",
        )
    if not report.passed:
        return PartialFailureError(f"not every moment of job {report.job!r} could be judged")
    return None
