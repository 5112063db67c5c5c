"""The billed time of slices, cut into pieces that have one price, one day and one set of labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from tpuctl.models.money.price_book import SECONDS_AN_HOUR, PriceBook
from tpuctl.models.money.slice_life import BilledInterval, SliceLife
from tpuctl.models.node import Provisioning

DAY_S = 86_400.0
CutTimes = Callable[[SliceLife, float, float], Iterable[float]]
"""The moments inside of a time at which the pieces of a slice are cut."""


class CostPiece(NamedTuple):
    """A piece of the time of a slice in which its price does not change."""

    life: SliceLife
    begin_s: float
    end_s: float
    """From when to when it was billed, by the best estimate."""
    least_s: float
    most_s: float
    """For how many seconds it was billed at least, and at most."""
    usd_per_hour: float | None
    """None: no price is known."""
    on_demand_usd_per_hour: float | None
    """The price of the same slice on demand."""
    at_s: float = 0.0
    """A moment in the piece, though none of it may have been billed."""

    @property
    def seconds(self) -> float:
        """For how long it was billed."""
        return self.end_s - self.begin_s

    @property
    def is_estimate(self) -> bool:
        """Whether not all of it is known from the API's own timestamps."""
        return self.most_s - self.least_s > 0.0005

    def usd(self, seconds: float | None = None) -> float | None:
        """What it costs, or so many seconds of it."""
        if self.usd_per_hour is None:
            return None
        took_s = self.seconds if seconds is None else seconds
        return took_s / SECONDS_AN_HOUR * self.usd_per_hour


def cost_pieces(
    lives: Iterable[SliceLife],
    book: PriceBook,
    since_s: float,
    until_s: float,
    cut_times: CutTimes | None = None,
) -> Iterator[CostPiece]:
    """The pieces of all slices that lie in a time, in seconds since 1970."""
    for life in lives:
        for interval in life.intervals:
            first_s = max(since_s, interval.begin.earliest_s)
            last_s = min(until_s, interval.end.latest_s)
            if first_s < last_s:
                cuts = cut_times(life, first_s, last_s) if cut_times else ()
                yield from _pieces(life, interval, book, sorted({first_s, *cuts, last_s}))


def day_cuts(_life: SliceLife, begin_s: float, end_s: float) -> Iterator[float]:
    """The midnights (UTC) inside of a time."""
    day_s = (begin_s // DAY_S + 1) * DAY_S
    while day_s < end_s:
        yield day_s
        day_s += DAY_S


def label_cuts(life: SliceLife, begin_s: float, end_s: float) -> Iterator[float]:
    """The moments inside of a time at which the labels of a slice changed."""
    return life.label_changes(begin_s, end_s)


def _pieces(
    life: SliceLife, interval: BilledInterval, book: PriceBook, cuts: Sequence[float]
) -> Iterator[CostPiece]:
    of = life.identity
    kind, zone = of.accelerator_type, of.zone
    begin, end = interval.begin, interval.end
    for first_s, last_s in zip(cuts, cuts[1:], strict=False):
        for span in book.spans(kind, zone, of.provisioning, first_s, last_s):
            on_demand = book.price_at(kind, zone, Provisioning.ON_DEMAND, span.begin_s)
            inner_s = min(max(begin.at_s, span.begin_s), span.end_s)
            yield CostPiece(
                life,
                inner_s,
                max(inner_s, min(end.at_s, span.end_s)),
                _overlap_s(begin.latest_s, end.earliest_s, span.begin_s, span.end_s),
                span.end_s - span.begin_s,
                span.usd_per_hour,
                on_demand.usd_per_hour if on_demand else None,
                span.begin_s,
            )


def _overlap_s(begin_s: float, end_s: float, first_s: float, last_s: float) -> float:
    return max(0.0, min(end_s, last_s) - max(begin_s, first_s))
