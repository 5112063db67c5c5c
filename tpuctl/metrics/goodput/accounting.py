"""Seconds and dollars of each part of a job's time, and the share that made progress."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tpuctl.metrics.goodput.time_parts import Span, TimePart

GOOD = TimePart.TRAINING
"""The one part whose work stays."""


class Billed(NamedTuple):
    """A time in which slices were paid for; without a known price `usd_per_s` is None."""

    begin_s: float
    end_s: float
    usd_per_s: float | None


class PartTotal(NamedTuple):
    """What one part took of a job's time and money."""

    part: TimePart
    seconds: float
    usd: float | None


@dataclass(frozen=True, slots=True)
class Goodput:
    """The parts of a job's time, which add up to all of it and to its bill."""

    parts: tuple[PartTotal, ...]

    @property
    def wall_s(self) -> float:
        """From the submission to the end of the job, or of its last slice."""
        return sum(each.seconds for each in self.parts)

    @property
    def share(self) -> float | None:
        """The part of the time that made progress, from 0 to 1; None before any time went by."""
        good_s = sum(each.seconds for each in self.parts if each.part == GOOD)
        return good_s / self.wall_s if self.wall_s > 0 else None

    @property
    def losses(self) -> list[PartTotal]:
        """All other parts, the longest first."""
        others = (each for each in self.parts if each.part != GOOD)
        return sorted(others, key=lambda each: -each.seconds)


def account(spans: Sequence[Span], billed: Sequence[Billed]) -> Goodput:
    """The totals of each part; what was billed outside of all spans is nobody's."""
    is_priced = all(each.usd_per_s is not None for each in billed)
    totals = []
    for part in TimePart:
        mine = [span for span in spans if span.part == part]
        if mine:
            usd = sum(usd_of(span, billed) or 0.0 for span in mine)
            seconds = sum(span.seconds for span in mine)
            totals.append(PartTotal(part, seconds, usd if is_priced else None))
    return Goodput(tuple(totals))


def usd_of(span: Span, billed: Sequence[Billed]) -> float | None:
    """What was billed in a span of time; None where a price is not known."""
    if any(each.usd_per_s is None for each in billed):
        return None
    return sum(_usd(span, each) for each in billed)


def _usd(span: Span, billed: Billed) -> float:
    shared_s = min(span.end_s, billed.end_s) - max(span.begin_s, billed.begin_s)
    return max(0.0, shared_s) * (billed.usd_per_s or 0.0)
