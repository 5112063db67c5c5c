"""What a rehearsal yields while it works; the command line puts it into words."""

from typing import NamedTuple

from tpuctl.models.job import JobState
from tpuctl.models.rehearsal.moment import Moment
from tpuctl.models.rehearsal.verdict import ReferenceVerdict, RehearsalReport, Verdict


class RunStarted(NamedTuple):
    """A run begins: `reference`, `reference-2`, or the name of a moment."""

    name: str


class RunProgressed(NamedTuple):
    """A run has come further."""

    name: str
    state: JobState
    step: int
    attempt: int


class ReferenceJudged(NamedTuple):
    """The undisturbed runs have ended."""

    verdict: ReferenceVerdict


class MomentsPlanned(NamedTuple):
    """These runs follow, so many of them side by side."""

    moments: tuple[Moment, ...]
    side_by_side: int


class MomentJudged(NamedTuple):
    """A disturbed run has ended."""

    verdict: Verdict


class RehearsalEnded(NamedTuple):
    """Everything has ended."""

    report: RehearsalReport


RehearsalEvent = (
    RunStarted | RunProgressed | ReferenceJudged | MomentsPlanned | MomentJudged | RehearsalEnded
)
