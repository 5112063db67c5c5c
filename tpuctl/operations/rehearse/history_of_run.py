"""What happened when in a run, drawn from its evidence."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from tpuctl.models.job import Attempt
from tpuctl.models.rehearsal.evidence import RunEvidence
from tpuctl.models.rehearsal.run_history import (
    AttemptSpan,
    FiredDisturbance,
    LoggedStep,
    RunHistory,
    SaveSpan,
)

MOST_STEPS = 300
"""Of each attempt: more than a picture can show."""


class SeenStep(NamedTuple):
    """A step that a worker told; the time is in seconds since 1970."""

    attempt: int
    step: int
    time_s: float


class SeenSave(NamedTuple):
    """A save that requests show; the times are in seconds since 1970."""

    step: int | None
    began_s: float
    complete_s: float | None


def history_of_run(
    run: RunEvidence, steps: Iterable[SeenStep], saves: Iterable[SeenSave], prefix: str
) -> RunHistory:
    """The history of a run.

    `steps` are those of all workers, in any order. `prefix` is where the program saves, as
    `bucket/prefix`; empty: not known.
    """
    attempts = run.job.attempts if run.job else ()
    zero_s = run.job.submitted_s if run.job else run.began_s
    return RunHistory(
        max(0.0, run.ended_s - zero_s),
        tuple(_attempt(attempt, zero_s) for attempt in attempts),
        tuple(_steps(steps, zero_s)),
        tuple(SaveSpan(_since(zero_s, save.began_s), save.step, _at(zero_s, save.complete_s))
              for save in saves),
        tuple(_restores_s(run, attempts, prefix, zero_s)),
        tuple(FiredDisturbance(entry.name, _since(zero_s, entry.time_s)) for entry in run.fired),
    )  # fmt: skip


def _attempt(attempt: Attempt, zero_s: float) -> AttemptSpan:
    times_s = (attempt.requested_s, attempt.ready_s, attempt.started_s, attempt.ended_s)
    first_s = min((time_s for time_s in times_s if time_s is not None), default=zero_s)
    return AttemptSpan(
        attempt.number,
        attempt.zone,
        _since(zero_s, first_s),
        _at(zero_s, attempt.provisioning_s),
        _at(zero_s, attempt.ready_s),
        _at(zero_s, attempt.started_s),
        _at(zero_s, attempt.ended_s),
        attempt.outcome,
    )


def _steps(steps: Iterable[SeenStep], zero_s: float) -> Iterator[LoggedStep]:
    """The first telling of each step of each attempt, not more than a picture can show."""
    first: dict[tuple[int, int], float] = {}
    for attempt, step, time_s in steps:
        key = attempt, step
        first[key] = min(time_s, first.get(key, time_s))
    ordered = sorted((attempt, time_s, step) for (attempt, step), time_s in first.items())
    for number, group in groupby(ordered, key=lambda row: row[0]):
        for _, time_s, step in thin_out(list(group)):
            yield LoggedStep(number, step, _since(zero_s, time_s))


def thin_out(rows: Sequence[tuple[int, float, int]]) -> list[tuple[int, float, int]]:
    """At most MOST_STEPS of the rows, evenly, the first and the last among them."""
    if len(rows) <= MOST_STEPS:
        return list(rows)
    last = len(rows) - 1
    return [rows[index * last // (MOST_STEPS - 1)] for index in range(MOST_STEPS)]


def _restores_s(
    run: RunEvidence, attempts: Sequence[Attempt], prefix: str, zero_s: float
) -> Iterator[float]:
    """When each attempt first read something that was there below the prefix."""
    folder = f"{prefix.rstrip('/')}/"
    reads_s = [
        request.began_s
        for request in run.requests
        if request.method == "storage.objects.get"
        and request.caller
        and 200 <= request.status < 300
        and prefix
        and f"{request.bucket}/{request.object}".startswith(folder)
    ]
    for attempt in attempts:
        if attempt.started_s is not None:
            end_s = run.ended_s if attempt.ended_s is None else attempt.ended_s
            mine = [time_s for time_s in reads_s if attempt.started_s <= time_s <= end_s]
            if mine:
                yield _since(zero_s, min(mine))


def _since(zero_s: float, time_s: float) -> float:
    """Seconds since the job was submitted, to the millisecond."""
    return round(time_s - zero_s, 3)


def _at(zero_s: float, time_s: float | None) -> float | None:
    return None if time_s is None else _since(zero_s, time_s)
