"""The cost of a time by job, slice, label, owner, zone, day or provisioning."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tpuctl.errors import UsageError
from tpuctl.ledger.dated_lines import day_of
from tpuctl.models.job import JobRecord
from tpuctl.models.money.cost_pieces import (
    CostPiece,
    CutTimes,
    cost_pieces,
    day_cuts,
    label_cuts,
)
from tpuctl.models.money.price_book import SECONDS_AN_HOUR, PriceBook
from tpuctl.models.money.slice_life import SliceLife
from tpuctl.models.node import JOB_LABEL
from tpuctl.operations.cost.cost_history import CostHistory
from tpuctl.operations.cost.forecast import seconds_left
from tpuctl.operations.cost.job_times import JobTimes

GROUPS = ("job", "slice", "owner", "zone", "day", "provisioning")
LABEL_PREFIX = "label:"
OWNER_LABEL = "owner"
NOBODY = "-"
"""The group of what has none."""


class CostRow(NamedTuple):
    """What the slices of one group cost; where no price is known, USD are None."""

    group: str
    hours: float
    usd: float | None
    usd_on_demand: float | None
    """What the same time would have cost on demand."""
    usd_lost: float | None
    """What preemptions lost: work that was done again. None where no job says so."""
    usd_idle: float | None
    """What was paid for after jobs had ended. None where no job says so."""
    usd_forecast: float | None
    """What running jobs may still cost up to their limits; None where nothing limits one."""
    usd_least: float | None
    usd_most: float | None
    is_estimate: bool
    unpriced_hours: float
    """Hours of slices without a known price: their cost is in no sum."""
    slices: int
    node_ids: tuple[str, ...]
    zones: tuple[str, ...]


class CostReport(NamedTuple):
    """The rows of a time, the dearest first, and their total."""

    rows: Sequence[CostRow]
    total: CostRow


@dataclass(frozen=True, slots=True)
class CostQuestion:
    """From when to when (seconds since 1970), and by what."""

    since_s: float
    until_s: float
    group_by: str = "job"


def check_group(group_by: str) -> None:
    """Raise UsageError for a group that there is not."""
    key = group_by.removeprefix(LABEL_PREFIX)
    if group_by not in GROUPS and not (group_by.startswith(LABEL_PREFIX) and key):
        raise UsageError(
            f"cost cannot be grouped by {group_by!r}",
            hint=f"group by {', '.join(GROUPS)} or label:KEY",
        )


def cost_report(history: CostHistory, book: PriceBook, question: CostQuestion) -> CostReport:
    """The cost of all slices of a time, by the group that the question names."""
    groups = _Groups(history, question.group_by)
    times = {job_id: job.times for job_id, job in history.jobs.items() if job.times is not None}
    until_s = min(question.until_s, history.now_s)
    pieces: dict[str, list[CostPiece]] = defaultdict(list)
    for piece in cost_pieces(history.lives, book, question.since_s, until_s, groups.cuts):
        pieces[groups.group_of(piece)].append(piece)
    forecasts = _Forecasts(history, book, groups)
    rows = [
        _row(group, found, groups, times, forecasts.of(found)) for group, found in pieces.items()
    ]
    every = [piece for found in pieces.values() for piece in found]
    total = _row("total", every, groups, times, forecasts.of(every))
    is_by_day = question.group_by == "day"
    rows.sort(key=lambda row: (0.0 if is_by_day else -(row.usd or 0.0), row.group))
    return CostReport(rows, total)


def daily_usd(
    history: CostHistory, book: PriceBook, question: CostQuestion
) -> dict[str, dict[str, float]]:
    """The cost of each group on each day (YYYY-MM-DD) in USD, as far as prices are known."""
    groups = _Groups(history, question.group_by)

    def cuts(life: SliceLife, begin_s: float, end_s: float) -> set[float]:
        of_group = groups.cuts(life, begin_s, end_s) if groups.cuts else ()
        return {*day_cuts(life, begin_s, end_s), *of_group}

    found: dict[str, dict[str, float]] = {}
    until_s = min(question.until_s, history.now_s)
    for piece in cost_pieces(history.lives, book, question.since_s, until_s, cuts):
        days = found.setdefault(groups.group_of(piece), {})
        day = day_of(piece.at_s)
        days[day] = days.get(day, 0.0) + (piece.usd() or 0.0)
    return found


class _Groups:
    """Which group a piece of a slice belongs to, and where pieces are cut for that."""

    def __init__(self, history: CostHistory, group_by: str) -> None:
        self._history = history
        self._group_by = group_by
        self.label = group_by.removeprefix(LABEL_PREFIX) if ":" in group_by else ""
        names: dict[str, Callable[[CostPiece], str]] = {
            "job": self.job_of,
            "slice": _slice_name,
            "owner": self._owner_of,
            "zone": lambda piece: piece.life.identity.zone,
            "day": lambda piece: day_of(piece.at_s),
            "provisioning": lambda piece: piece.life.identity.provisioning,
        }
        self._name = names.get(group_by, _slice_name)

    @property
    def cuts(self) -> CutTimes | None:
        """Where pieces are cut."""
        if self.label:
            return label_cuts
        if self._group_by == "day":
            return day_cuts
        return self._use_cuts if self._group_by in ("job", "owner") else None

    def group_of(self, piece: CostPiece) -> str:
        """The name of the group."""
        if self.label:
            return piece.life.labels_at(piece.at_s).get(self.label, NOBODY)
        return self._name(piece) or NOBODY

    def job_of(self, piece: CostPiece) -> str:
        """The id of the job that a slice was made for, or that used it; else an empty text."""
        of = piece.life.identity
        if of.job_id:
            return of.job_id
        uses = self._history.uses.get(of.node_id, ())
        used_by = [use.job_id for use in uses if use.begin_s <= piece.at_s < use.end_s]
        return used_by[-1] if used_by else piece.life.labels_at(piece.at_s).get(JOB_LABEL, "")

    def _owner_of(self, piece: CostPiece) -> str:
        job = self._history.jobs.get(self.job_of(piece))
        if job is not None:
            return job.owner
        return piece.life.identity.owner or piece.life.labels_at(piece.at_s).get(OWNER_LABEL, "")

    def _use_cuts(self, life: SliceLife, begin_s: float, end_s: float) -> Iterator[float]:
        for use in self._history.uses.get(life.identity.node_id, ()):
            yield from (each for each in (use.begin_s, use.end_s) if begin_s < each < end_s)


def _slice_name(piece: CostPiece) -> str:
    of = piece.life.identity
    return f"{of.name} {of.zone}" if of.name else of.node_id


class _Forecasts:
    """What running jobs may still cost."""

    def __init__(self, history: CostHistory, book: PriceBook, groups: _Groups) -> None:
        self._history = history
        self._groups = groups
        self._usd_per_hour: dict[str, float | None] = {}
        for life in history.lives:
            if life.is_running:
                of = life.identity
                price = book.price_at(of.accelerator_type, of.zone, of.provisioning, history.now_s)
                before = self._usd_per_hour.get(of.job_id, 0.0)
                usd = price.usd_per_hour if price else None
                self._usd_per_hour[of.job_id] = (
                    None if usd is None or before is None else before + usd
                )

    def of(self, pieces: Iterable[CostPiece]) -> float | None:
        """What the running jobs of these pieces may still cost; 0 where none runs."""
        job_ids = {self._groups.job_of(piece) for piece in pieces if piece.life.is_running}
        jobs = (self._history.jobs.get(job_id) for job_id in job_ids)
        found = [self._of_job(job.record if job else None) for job in jobs]
        known = [each for each in found if each is not None]
        return sum(known) if len(known) == len(found) else None

    def _of_job(self, record: JobRecord | None) -> float | None:
        if record is None:
            return None  # nobody says when a slice without a job ends
        usd = self._usd_per_hour.get(record.job_id)
        left_s = seconds_left(record, self._history.now_s, usd)
        return None if usd is None or left_s is None else usd * left_s / SECONDS_AN_HOUR


def _row(
    group: str,
    pieces: Sequence[CostPiece],
    groups: _Groups,
    times: dict[str, JobTimes],
    forecast: float | None,
) -> CostRow:
    """The sums over the pieces of a group."""
    seconds = unpriced_s = usd = least = most = 0.0
    on_demand = None
    is_priced = is_estimate = False
    for piece in pieces:
        took_s, price = piece.end_s - piece.begin_s, piece.usd_per_hour
        seconds += took_s
        is_estimate = is_estimate or piece.is_estimate
        if piece.on_demand_usd_per_hour is not None:
            on_demand = (on_demand or 0.0) + took_s * piece.on_demand_usd_per_hour
        if price is None:
            unpriced_s += took_s
        else:
            is_priced = True
            usd += took_s * price
            least += piece.least_s * price
            most += piece.most_s * price
    lost, idle = _lost_and_idle(pieces, groups, times)
    ids = dict.fromkeys(piece.life.identity.node_id for piece in pieces)
    return CostRow(
        group,
        seconds / SECONDS_AN_HOUR,
        usd / SECONDS_AN_HOUR if is_priced else None,
        None if on_demand is None else on_demand / SECONDS_AN_HOUR,
        lost,
        idle,
        forecast,
        least / SECONDS_AN_HOUR if is_priced else None,
        most / SECONDS_AN_HOUR if is_priced else None,
        is_estimate=is_estimate,
        unpriced_hours=unpriced_s / SECONDS_AN_HOUR,
        slices=len(ids),
        node_ids=tuple(ids),
        zones=tuple(sorted({piece.life.identity.zone for piece in pieces})),
    )


def _lost_and_idle(
    pieces: Iterable[CostPiece], groups: _Groups, times: dict[str, JobTimes]
) -> tuple[float | None, float | None]:
    """USD that preemptions lost, and USD of idle time; None where no job says so."""
    lost, idle = [], []
    for piece in pieces if times else ():
        of_job = times.get(groups.job_of(piece))
        if of_job is not None:
            found = of_job.within(piece.begin_s, piece.end_s)
            lost.append(piece.usd(found.lost_s))
            idle.append(piece.usd(found.idle_s))
    return _sum(lost), _sum(idle)


def _sum(amounts: Iterable[float | None]) -> float | None:
    """The sum of what is known; None where nothing is."""
    known = [each for each in amounts if each is not None]
    return sum(known) if known else None
