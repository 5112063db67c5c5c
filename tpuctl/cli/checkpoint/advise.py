"""`tpuctl checkpoint advise`: what saving costs a job, and how often it should save."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tpuctl.byte_size import count_text
from tpuctl.cli.shell.detail_view import DetailBlock, DetailView, print_details
from tpuctl.cli.shell.options import JobName
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import Usd, attributes, usd_of, values_of

if TYPE_CHECKING:
    from tpuctl.operations.checkpoints.advise import Advice, LostTime

SOURCES = (
    "Young 1974, Communications of the ACM 17(9), 530-531: sqrt(2 d M)",
    "Daly 2006, Future Generation Computer Systems 22(3), 303-312: "
    "sqrt(2 d M) (1 + sqrt(d/2M)/3 + d/18M) - d",
)
"""d: what one save costs the program; M: the mean time between preemptions."""
HOUR_S = 3600.0


def advise(runtime: Runtime, name: JobName) -> None:
    """Compute how often to save.

    It takes a job's saves and preemptions, and the formula of Young and Daly.

    Losses are parts of the time in which the job has had slices so far.
    """
    from tpuctl.operations.checkpoints.advise import advise_job

    advice, directory = advise_job(name, runtime.store, runtime.now())
    if runtime.output.is_table:
        print_details(runtime.output, _detail_view(advice, directory))
    else:
        runtime.output.fields(document(advice, directory))


def document(advice: "Advice", directory: str) -> dict[str, Any]:
    """The advice as `-o json` shows it. Keys are public."""
    job, saving, losses = advice.job, advice.saving, advice.losses
    return {
        "job": job.job_id,
        "state": job.state,
        "directory": directory,
        **values_of(saving, attributes("saves", "save_s", "blocked_s")),
        "cost_s": _rounded(saving.cost_s),
        "every": saving.every,
        **{name: _rounded(getattr(saving, name)) for name in ("interval_s", "step_s")},
        "preemptions": losses.preemptions,
        "active_hours": _rounded(losses.active_s / HOUR_S),
        "mean_hours": _rounded(losses.mean_s / HOUR_S),
        "restart_s": _rounded(losses.restart_s),
        "redone_steps": losses.redone_steps,
        "redone_hours": _rounded(advice.redone_hours),
        **{name: _rounded(getattr(advice, name)) for name in ("young_s", "daly_s", "best_s")},
        "best_every": advice.best_every,
        "lost_now": _loss_document(advice.now),
        "lost_at_best": _loss_document(advice.best),
        "sources": list(SOURCES),
    }


def _loss_document(lost: "LostTime | None") -> dict[str, Any] | None:
    if lost is None:
        return None
    return {
        "percent": round(100 * lost.share, 3),
        "hours": round(lost.hours, 4),
        "usd": usd_of(lost.usd),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _detail_view(advice: "Advice", directory: str) -> DetailView:
    rows = _fields(directory, advice)
    fields = [(label, text) for label, text in rows if text]
    formulas = DetailBlock(
        "d: what a save costs, M: mean time between preemptions",
        [(source,) for source in SOURCES],
    )
    return DetailView(advice.job.job_id, advice.job.state, fields, [formulas])


def _fields(directory: str, advice: "Advice") -> Iterator[tuple[str, str]]:
    saving, losses = advice.saving, advice.losses
    yield "directory", directory
    wait = (
        "" if saving.blocked_s is None else f", {_time(saving.blocked_s)} of it the program waits"
    )
    yield "save", f"{_time(saving.save_s)}{wait}"
    yield "cost", f"at most {_time(saving.cost_s)} of the program's time a save (d)"
    yield "preemptions", _preemptions(advice)
    hours = advice.redone_hours
    again = f", {_time(hours * HOUR_S)}" if hours is not None else ""
    redone = count_text(losses.redone_steps, "step") + again
    yield "done again", redone if losses.redone_steps else ""
    yield "saves now", _current_interval_text(advice)
    yield "should save", _best(advice)
    yield "loses now", _loss_text(advice.now)
    yield "would lose", _loss_text(advice.best)


def _preemptions(advice: "Advice") -> str:
    losses = advice.losses
    if not losses.preemptions:
        return f"none in {_time(losses.active_s)}: reckoned as if there had been one (M)"
    each = f"one every {_time(losses.mean_s)} (M)"
    return f"{losses.preemptions} in {_time(losses.active_s)}: {each}"


def _current_interval_text(advice: "Advice") -> str:
    saving = advice.saving
    if saving.every is None or saving.interval_s is None:
        return "not known: fewer than two saves of one attempt are there"
    return f"every {saving.every:g} steps, {_time(saving.interval_s)}"


def _best(advice: "Advice") -> str:
    steps = f"every {count_text(advice.best_every, 'step')}, " if advice.best_every else "every "
    is_bound = advice.best_s > advice.daly_s
    bound = ": as long as a save takes" if is_bound else ""
    return (
        f"{steps}{_time(advice.best_s)}{bound} "
        f"(Daly {_time(advice.daly_s)}, Young {_time(advice.young_s)})"
    )


def _loss_text(lost: "LostTime | None") -> str:
    if lost is None:
        return ""
    usd = f", {Usd(lost.usd)} USD" if lost.usd is not None else ""
    return f"{100 * lost.share:.3g} %: {_time(lost.hours * HOUR_S)}{usd} so far"


def _time(seconds: float) -> str:
    """`0.41 s`, `48 s`, `12 m`, `3.4 h`."""
    for size, unit in ((HOUR_S, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
