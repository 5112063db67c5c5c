"""What happened when in a run, by the clock that starts at the submission of its job."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from tpuctl.models.job import Attempt
from tpuctl.models.rehearsal.evidence import RunEvidence
from tpuctl.models.rehearsal.run_history import (
    AttemptSpan,
    FiredDisturbance,
    LoggedStep,
    RunHistory,
    SaveSpan,
)
from tpuctl.operations.rehearse.judgement.observation.logged_steps import StepLog, ToldStep
from tpuctl.operations.rehearse.judgement.observation.object_events import object_reads
from tpuctl.operations.rehearse.judgement.observation.observed_saves import (
    SaveLayout,
    observed_saves,
)

MOST_STEPS = 300
"""Of each attempt: more than a picture can show."""


def history_of_run(run: RunEvidence, log: StepLog, layout: SaveLayout) -> RunHistory:
    """The history of a run whose lines tell the steps of `log` and whose saves are laid out so."""
    attempts = run.job.attempts if run.job else ()
    zero_s = run.job.submitted_s if run.job else run.began_s
    saves = tuple(_saves(run, layout, zero_s))
    return RunHistory(
        max(0.0, _since(zero_s, run.ended_s)),
        tuple(_attempt(attempt, zero_s) for attempt in attempts),
        tuple(_steps(log.steps, zero_s)),
        saves,
        tuple(_restores_s(run, attempts, saves, layout.prefix)),
        tuple(FiredDisturbance(entry.name, _since(zero_s, entry.time_s)) for entry in run.fired),
    )


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


def _steps(steps: Iterable[ToldStep], zero_s: float) -> Iterator[LoggedStep]:
    """The first telling of each step of each attempt, not more than a picture can show."""
    first: dict[tuple[int, int], float] = {}
    for told in steps:
        key = told.attempt, told.step
        first[key] = min(told.time_s, first.get(key, told.time_s))
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


def _saves(run: RunEvidence, layout: SaveLayout, zero_s: float) -> Iterator[SaveSpan]:
    for save in observed_saves(run.requests, layout) if layout.prefix else ():
        began_s = min(write.began_s for write in save.writes)
        yield SaveSpan(_since(zero_s, began_s), save.step, _at(zero_s, save.complete_s))


def _restores_s(
    run: RunEvidence, attempts: Sequence[Attempt], saves: Sequence[SaveSpan], prefix: str
) -> Iterator[float]:
    """When each attempt first read something below the prefix, once a save was complete."""
    zero_s = run.job.submitted_s if run.job else run.began_s
    saved_s = min((each.complete_s for each in saves if each.complete_s is not None), default=None)
    reads_s = [
        _since(zero_s, read.began_s)
        for read in object_reads(run.requests)
        if read.is_found and read.name.startswith(prefix)
    ]
    for attempt in attempts if saved_s is not None else ():
        if attempt.started_s is not None:
            begin_s = max(_since(zero_s, attempt.started_s), saved_s or 0.0)
            end_s = _since(zero_s, attempt.ended_s or run.ended_s)
            mine = [time_s for time_s in reads_s if begin_s <= time_s <= end_s]
            yield from sorted(mine)[:1]


def _since(zero_s: float, time_s: float) -> float:
    """Seconds since the job was submitted, to the millisecond."""
    return round(time_s - zero_s, 3)


def _at(zero_s: float, time_s: float | None) -> float | None:
    return None if time_s is None else _since(zero_s, time_s)
