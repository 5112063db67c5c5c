"""What a rehearsal concludes, in words: shared by the terminal, the page and the other reports."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tpuctl.byte_size import count_text
from tpuctl.models.rehearsal.verdict import (
    Check,
    Judgement,
    ReferenceVerdict,
    RehearsalReport,
    Verdict,
)

SKIPPED = "skipped"
SKIPPED_WHY = "it was not run: the time was over, or the job has no such moment"
ESSENTIAL = frozenset({"disturbed", "came-back"})
"""The checks without which a verdict is unknown."""
GOOD = frozenset({Judgement.PASS, Judgement.WARN})


@dataclass(frozen=True, slots=True)
class MomentCounts:
    """How many moments of a rehearsal ended in which way."""

    survived: int
    failed: int
    unknown: int
    skipped: int

    @property
    def total(self) -> int:
        """All moments that were planned."""
        return self.survived + self.failed + self.unknown + self.skipped


def count_moments(report: RehearsalReport) -> MomentCounts:
    """The moments of a report, by their end."""
    counts = Counter(verdict.judgement for verdict in report.verdicts)
    survived = sum(counts[judgement] for judgement in GOOD)
    failed, unknown = counts[Judgement.FAIL], counts[Judgement.UNKNOWN]
    return MomentCounts(survived, failed, unknown, len(report.skipped))


def summary_text(report: RehearsalReport) -> str:
    """`digits survives 38 of 40 moments; 1 fails, 1 is unknown`, or why no moment was tried."""
    counts = count_moments(report)
    if counts.total == 0:
        is_good = report.reference.judgement in GOOD
        why = "" if is_good else why_text(report.reference)
        return ": ".join(filter(None, (report.job, "no moment was tried", why)))
    others = (
        (counts.failed, "fails", "fail"),
        (counts.unknown, "is unknown", "are unknown"),
        (counts.skipped, "was not run", "were not run"),
    )
    rest = [f"{number} {one if number == 1 else many}" for number, one, many in others if number]
    of_all = f"{counts.survived} of {count_text(counts.total, 'moment')}"
    return "; ".join(filter(None, (f"{report.job} survives {of_all}", ", ".join(rest))))


def why_text(verdict: Verdict | ReferenceVerdict) -> str:
    """The cause of a failure, or else the first evidence for the verdict; empty: it passed."""
    return next((text for _, text in evidence(verdict)), "")


def evidence(verdict: Verdict | ReferenceVerdict) -> Iterator[tuple[str, str]]:
    """Why a verdict is not just `pass`: the cause, and each check that decides it, with labels."""
    if verdict.cause or verdict.explanation:
        yield "cause", ": ".join(filter(None, (verdict.cause, verdict.explanation)))
    deciding = [each for each in verdict.checks if each.judgement == verdict.judgement]
    if verdict.judgement == Judgement.UNKNOWN:
        # Where the moment never came, or the job did not end, nothing else can be known.
        deciding = [each for each in deciding if each.name in ESSENTIAL] or deciding
    for check in deciding if verdict.judgement != Judgement.PASS else ():
        yield check.judgement, check_text(check)


def check_text(check: Check) -> str:
    """`values: the loss of step 41 is 0.31, and 0.29 in the reference`."""
    return f"{check.name}: {check.evidence}"


def outcome_text(verdict: Verdict) -> str:
    """What became of the job at a moment, on one line."""
    why = why_text(verdict)
    if verdict.judgement not in GOOD and why:
        return why
    return ", ".join(filter(None, [*_figures(verdict), why]))


def _figures(verdict: Verdict) -> Iterable[str]:
    if verdict.resumed_from is not None:
        step = verdict.resumed_from
        yield f"resumed from step {step}" if step else "resumed from the beginning"
    if verdict.lost_steps is not None:
        yield f"{count_text(verdict.lost_steps, 'step')} lost"
    if verdict.recovery_s is not None:
        yield f"recovered in {seconds_text(verdict.recovery_s)}"


def reference_text(reference: ReferenceVerdict) -> str:
    """What the undisturbed runs show, on one line."""
    shown = [count_text(reference.steps, "step"), count_text(reference.saves, "save")]
    if reference.save_interval_steps:
        shown.append(f"one every {count_text(reference.save_interval_steps, 'step')}")
    text = ", ".join(shown) + (f", below {reference.prefix}" if reference.prefix else "")
    why = why_text(reference)
    text = f"{why} ({text})" if why else text
    return f"{text}; kept: {reference.state_dir}" if reference.state_dir else text


def seconds_text(seconds: float) -> str:
    """A duration as `0.8 s`, `45 s`, `5 m 12 s` or `2 h 05 m`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60:02} m"
