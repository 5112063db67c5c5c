"""Which of a job's moments are tried, how often, and in which order."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from tpuctl.errors import UsageError
from tpuctl.models.rehearsal.moment import Disturbance, Moment
from tpuctl.operations.rehearse.judgement.planned_moments import MOMENT_NAMES


def require_known_names(only: Sequence[str]) -> None:
    """Raise UsageError for a name that no job's moment has, before anything is run."""
    for wanted in only:
        if not any(is_named(name, wanted) for name in MOMENT_NAMES):
            raise UsageError(
                f"there is no moment {wanted!r}", hint=f"there are: {', '.join(MOMENT_NAMES)}"
            )


def choose_moments(moments: Sequence[Moment], only: Sequence[str]) -> list[Moment]:
    """The moments that are named: wholly, by a beginning up to a `/` or `:`, or by a pattern.

    Raises UsageError for a name that no moment has.
    """
    for wanted in only:
        if not any(is_named(moment.name, wanted) for moment in moments):
            names = ", ".join(moment.name for moment in moments)
            raise UsageError(f"there is no moment {wanted!r}", hint=f"there are: {names}")
    return [
        moment
        for moment in moments
        if not only or any(is_named(moment.name, wanted) for wanted in only)
    ]


def longest_first(moments: Iterable[Moment]) -> list[Moment]:
    """The same moments, those first that wait longest: others run meanwhile."""
    return sorted(
        moments,
        key=lambda moment: (
            moment.disturbance == Disturbance.PREEMPTION,
            -(moment.notice_s or 0.0),
        ),
    )


def is_named(name: str, wanted: str) -> bool:
    """Whether a moment is meant by a name, by its beginning or by a pattern."""
    return (
        name == wanted or name.startswith((f"{wanted}/", f"{wanted}:")) or fnmatchcase(name, wanted)
    )


def repeat_moments(moments: Iterable[Moment], count: int) -> list[Moment]:
    """Every moment so many times, those after the first with a number behind their names."""
    return [
        moment if number == 1 else replace(moment, name=f"{moment.name}#{number}")
        for moment in moments
        for number in range(1, count + 1)
    ]
