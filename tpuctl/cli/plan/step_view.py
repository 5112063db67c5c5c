"""One planned step in full: what it takes and costs, its terms as a waterfall, its memory."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tpuctl.byte_size import size_text
from tpuctl.cli.plan.plan_columns import days_text, in_days, name_text, usd_text
from tpuctl.cli.shell.detail_view import DetailBlock, DetailView, print_details
from tpuctl.cli.shell.output import Output
from tpuctl.models.planning.amount import amount_text, percent_text, seconds_text, three_digits
from tpuctl.models.planning.mesh_text import mesh_text
from tpuctl.operations.planning.planned_slice import PlannedSlice, PlannedStep, RunCost

if TYPE_CHECKING:
    from tpuctl.operations.planning.training_plan import TrainingPlan

BAR_CELLS = 28
LEAST_SHARE = 0.0005
"""Terms below it are left out."""


def show_step(output: Output, plan: "TrainingPlan") -> None:
    """Print the chosen row of a plan."""
    row = plan.chosen
    if row.step is None or row.cost is None:
        return
    view = DetailView(
        heading=name_text(row),
        state=", ".join(mark.value for mark in row.marks) or f"fits: {row.fit.value}",
        fields=_fields(row, row.step, row.cost, plan.spec.sequence_tokens),
        blocks=[
            DetailBlock("the step, term by term (modelled)", waterfall(row.step.terms)),
            DetailBlock("hidden behind computing", _hidden(row.step)),
            DetailBlock("memory of a device (modelled)", _memory(row, row.step)),
        ],
    )
    print_details(output, view)


def waterfall(terms: Mapping[str, float]) -> list[tuple[str, str, str, str]]:
    """A row for each term, whose bar begins where the one above ends; then the sum."""
    total = sum(terms.values())
    rows, before = [], 0.0
    for name, seconds in terms.items():
        if seconds >= LEAST_SHARE * total:
            rows.append(
                (
                    name,
                    seconds_text(seconds),
                    _percent(seconds / total),
                    _bar(before, seconds, total),
                )
            )
        before += seconds
    return [*rows, ("step", seconds_text(total), _percent(1.0), _bar(0.0, total, total))]


def _bar(before: float, length: float, total: float) -> str:
    start = min(round(BAR_CELLS * before / total), BAR_CELLS - 1)
    end = max(start + 1, round(BAR_CELLS * (before + length) / total))
    return "·" * start + "█" * (end - start)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _hidden(step: PlannedStep) -> list[tuple[str, str]]:
    return [(name, seconds_text(each)) for name, each in step.hidden.items() if each > 0]


def _memory(row: PlannedSlice, step: PlannedStep) -> list[tuple[str, str, str, str]]:
    rows = [
        (name, size_text(size), _percent(size / row.usable_bytes), "")
        for name, size in step.memory_kinds.items()
        if size > 0
    ]
    share = _percent(step.memory_bytes / row.usable_bytes)
    high = f"up to {size_text(step.memory_high_bytes)} of {size_text(row.usable_bytes)}"
    return [*rows, ("all", size_text(step.memory_bytes), share, high)]


def _fields(
    row: PlannedSlice, step: PlannedStep, cost: RunCost, sequence_tokens: int
) -> list[tuple[str, str]]:
    tokens = amount_text(row.batch_sequences * sequence_tokens)
    accumulated = f", in {step.accumulation_steps} passes" if step.accumulation_steps > 1 else ""
    fields = [
        ("zone", row.where.zone or "none"),
        ("mesh", mesh_text(step.mesh)),
        ("remat", step.remat),
        ("batch", f"{row.batch_sequences} sequences, {tokens} tokens{accumulated}"),
        ("step", _range(step)),
        ("bound by", step.bound),
        ("mfu", _percent(row.mfu or 0.0)),
        ("tokens/s", amount_text(row.tokens_per_s or 0.0)),
        (
            "days",
            f"{days_text(cost.days)} ({days_text(cost.days_low)} to {days_text(cost.days_high)})",
        ),
        ("on demand", _usd_text(cost.usd)),
        ("reserved", _usd_text(cost.usd_reserved)),
        ("spot", _spot_text(cost)),
        ("compute-bound", _batch_text("from", row.least_compute_bound_batch)),
        ("largest batch", _batch_text("", row.largest_batch)),
    ]
    return [(label, text) for label, text in fields if text]


def _range(step: PlannedStep) -> str:
    low, high = seconds_text(step.step_low_s), seconds_text(step.step_high_s)
    return f"{seconds_text(step.step_s)} ({low} to {high})"


def _usd_text(usd: float | None) -> str:
    return "" if usd is None else f"{usd_text(usd)} USD"


def _spot_text(cost: RunCost) -> str:
    spot = cost.spot
    if spot.usd is None:
        return ""
    if not math.isfinite(spot.days):
        return "never ends: slices are lost before anything is done"
    return (
        f"{usd_text(spot.usd)} USD in {in_days(spot.days)}: "
        f"{three_digits(spot.preemptions)} preemptions, {percent_text(spot.lost_share)} lost, "
        f"a save every {three_digits(spot.save_every_s / 60)} min"
    )


def _batch_text(word: str, sequences: int | None) -> str:
    return "" if sequences is None else f"{word} {sequences} sequences a step".lstrip()
