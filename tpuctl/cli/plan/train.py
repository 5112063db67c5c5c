"""`tpuctl plan train`, or `tpuctl plan`: which slice a training run needs."""

from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpuctl.byte_size import count_text
from tpuctl.cli.plan import step_view
from tpuctl.cli.plan.plan_columns import (
    KEYS,
    LISTING,
    in_days,
    name_text,
    rounded,
    usd_text,
)
from tpuctl.cli.plan.plan_options import (
    Calibrate,
    Explain,
    File,
    Generations,
    Model,
    NumSlices,
    PlotFile,
    Spot,
    Types,
    check_plot,
    file_calibration,
    given_values,
    load_numpy,
    show_context,
    show_factors,
)
from tpuctl.cli.shell.options import Format, completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.listing import choose_rows, declare_keys
from tpuctl.cli.shell.tables.values import plain, values_of
from tpuctl.errors import UsageError
from tpuctl.models.planning.amount import amount_text, seconds_text, three_digits
from tpuctl.operations.planning.compared_slices import run_warning
from tpuctl.operations.planning.planned_slice import PlannedSlice
from tpuctl.operations.planning.row_marks import days_of, usd_of_run

if TYPE_CHECKING:
    from tpuctl.operations.planning.training_advice import PlanAdvice
    from tpuctl.operations.planning.training_plan import MeasuredStep, TrainingPlan


@declare_keys(lambda: KEYS)
def train(
    runtime: Runtime,
    file: File = None,
    model: Model = None,
    tokens: Annotated[
        str | None, typer.Option(metavar="AMOUNT", help="Tokens of the whole run, such as 1T.")
    ] = None,
    seq: Annotated[
        str | None, typer.Option(metavar="TOKENS", help="Tokens of a sequence, such as 8192.")
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(metavar="SEQUENCES", help="Sequences of a step; default: a published rule."),
    ] = None,
    batch_tokens: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNT", help="Instead of --batch, such as 4M: a power of two of sequences."
        ),
    ] = None,
    accelerator_type: Types = None,
    generation: Generations = None,
    num_slices: NumSlices = None,
    spot: Spot = False,
    preempted_every: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Mean time between preemptions of a spot slice; default: 24h."
        ),
    ] = None,
    mesh: Annotated[
        str | None,
        typer.Option(
            metavar="AXIS=N,AXIS=N",
            help="This sharding, such as fsdp=-1,tensor=4; -1 takes what is left. "
            "Default: the fastest that fits.",
        ),
    ] = None,
    remat: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="none, minimal or full: what the backward pass computes again. "
            "Default: the fastest that fits.",
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="bf16, int8 or fp8: what the MXU multiplies."),
    ] = None,
    optimizer: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="adam, adam-bf16, adafactor, momentum or sgd."),
    ] = None,
    target_days: Annotated[
        str | None, typer.Option(metavar="DAYS", help="Only slices that take no longer.")
    ] = None,
    max_usd: Annotated[
        str | None, typer.Option(metavar="USD", help="Only slices on which the run costs no more.")
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(
            metavar="JOB",
            help="Multiply by what this job's steps took over what the model says of them.",
            autocompletion=completed_by("job"),
        ),
    ] = None,
    calibrate: Calibrate = None,
    explain: Explain = False,
    plot: PlotFile = None,
) -> None:
    """Plan a training run: slices, days, USD.

    Which slice, how long, how much, and whether it fits. Every figure is modelled (tpuctl help
    accuracy); nothing is asked of the cloud.

    Each row is the fastest sharding that fits a type of slice. USD is on demand, USD SPOT with the
    expected preemptions at the best save interval. The knee is the least product of days and USD:
    beyond it, twice the chips raise the cost more than they cut the time. Without --zone the
    cheapest zone of each type counts.
    """
    load_numpy()
    from tpuctl.operations.planning.best_step import StepModels, calibrated_step
    from tpuctl.operations.planning.plan_specs import train_spec
    from tpuctl.operations.planning.training_plan import limits_error, plan_training

    if plot is not None:
        check_plot(plot)
    if explain and not (runtime.output.is_table or runtime.output.is_document):
        raise UsageError(
            f"--explain is a table or a document, not {runtime.output.format}", hint="add -o json"
        )
    spec = train_spec(
        given_values(
            runtime,
            file,
            {
                "model": ("--model", model),
                "run.tokens": ("--tokens", tokens),
                "run.seq": ("--seq", seq),
                "run.batch": ("--batch", batch),
                "run.batch_tokens": ("--batch-tokens", batch_tokens),
                "run.mesh": ("--mesh", mesh),
                "run.remat": ("--remat", remat),
                "run.precision": ("--precision", precision),
                "run.optimizer": ("--optimizer", optimizer),
                "slices.types": ("--accelerator-type", accelerator_type),
                "slices.generations": ("--generation", generation),
                "slices.num_slices": ("--num-slices", num_slices),
                "slices.preempted_every": ("--preempted-every", preempted_every),
                "slices.spot": ("--spot", "true" if spot else None),
                "limits.days": ("--target-days", target_days),
                "limits.usd": ("--max-usd", max_usd),
            },
        )
    )
    factors = file_calibration(calibrate)
    models = StepModels(step=calibrated_step(factors)) if factors else None
    calibration = None
    if job is not None:
        from tpuctl.operations.planning.measured_steps import measured_step

        calibration = measured_step(runtime, job, spec, models)
    flags = runtime.output.list_flags
    has_chosen_columns = bool(flags.columns or flags.filter or flags.sort)
    plan = plan_training(
        spec,
        runtime.known_prices,
        runtime.now(),
        calibration=calibration,
        models=models,
        are_all_bounded=runtime.output.format != Format.TABLE or has_chosen_columns,
    )
    show_plan(runtime, plan, is_explained=explain)
    show_factors(runtime, factors)
    show_context(runtime, spec.model, spec.sequence_tokens)
    if warning := run_warning(row.where for row in plan.rows if row.is_possible):
        runtime.output.warn(warning)
    if plot is not None:
        _draw(runtime, plot, plan)
    if error := limits_error(plan):
        raise error


def show_plan(runtime: Runtime, plan: "TrainingPlan", *, is_explained: bool) -> None:
    """Print the plan: a document, the terms of one row, or the table with advice below it."""
    from tpuctl.operations.planning.training_advice import training_advice

    output, advice = runtime.output, training_advice(plan)
    if output.is_document:
        rows = [plan.chosen] if is_explained else plan.rows
        chosen = choose_rows(rows, LISTING, output.list_flags)
        output.document(document(plan, list(chosen), advice))
        return
    if is_explained:
        step_view.show_step(output, plan)
    else:
        output.items(_shown(plan), LISTING, title=_title(plan))
    output.out.flush()  # the notes below belong below
    if not is_explained:
        for line in _summary(plan):
            output.note(line)
    for line in _foundations(plan):
        output.note(line)
    for each in advice:
        output.note(f"advice: {each.text} [{each.source}]")


def document(
    plan: "TrainingPlan", rows: list[PlannedSlice], advice: "list[PlanAdvice]"
) -> dict[str, Any]:
    """The plan as `-o json` shows it. Keys are public."""
    from tpuctl.perfmodel.workload.transformer import count_parameters

    spec, count = plan.spec, count_parameters(plan.model)
    chosen = plan.chosen
    return {
        "label": "modelled",
        "model": spec.model.name,
        "parameters": count.total,
        "active_parameters": count.active,
        "tokens": spec.tokens,
        "seq": spec.sequence_tokens,
        "precision": spec.precision,
        "optimizer": spec.optimizer,
        "provisioning": "spot" if spec.slices.is_spot else "on-demand",
        "limits": asdict(spec.limits),
        "rows": [plain(values_of(row, KEYS)) for row in rows],
        "advice": [
            {"kind": each.kind.value, "text": each.text, "source": each.source} for each in advice
        ],
        "advice_for": name_text(chosen),
        "assumptions": asdict(plan.assumed),
        "calibration": _calibration(plan.calibration),
        "sources": list(chosen.step.sources) if chosen.step else [],
    }


def _calibration(measured: "MeasuredStep | None") -> dict[str, Any] | None:
    if measured is None:
        return None
    return {
        "job": measured.job_id,
        "accelerator_type": measured.accelerator_type,
        "slices": measured.slices,
        "steps": measured.steps,
        "measured_s": rounded(measured.measured_s, 6),
        "modelled_s": rounded(measured.modelled_s, 6),
        "ratio": rounded(measured.ratio, 4),
    }


def _shown(plan: "TrainingPlan") -> list[PlannedSlice]:
    """The rows of the table: those that fit and keep the limits, and all that were named."""
    if plan.spec.slices.types:
        return list(plan.rows)
    within = [row for row in plan.rows if row.is_possible and row.is_within_limits]
    return within or [row for row in plan.rows if row.is_possible]


def _title(plan: "TrainingPlan") -> str:
    spec = plan.spec
    name = spec.model.name or "the model"
    return (
        f"modelled: {name} on {amount_text(spec.tokens)} tokens, "
        f"sequences of {spec.sequence_tokens:,}"
    )


def _summary(plan: "TrainingPlan") -> list[str]:
    """The marked rows in words, then what is not in the table."""
    lines = [_marked_line(plan, row) for row in plan.rows if row.marks]
    over = [row for row in plan.rows if row.is_possible and not row.is_within_limits]
    if over and lines:
        lines.append(f"{count_text(len(over), 'slice')} more that fit exceed the limits")
    return [*lines, *_unfit_lines(plan)]


def _marked_line(plan: "TrainingPlan", row: PlannedSlice) -> str:
    """`cheapest: v6e-256 in us-east5-a, 5.36 days, 88,975 USD on demand`."""
    is_spot = plan.spec.slices.is_spot
    if row.cost is None:
        return ""
    usd = usd_text(usd_of_run(row.cost, is_spot=is_spot))
    price = f"{usd} USD" if usd else "no known price"
    how = "on spot" if is_spot else "on demand"
    names = [mark.value for mark in row.marks]
    marks = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    zone = f" in {row.where.zone}" if row.where.zone else ""
    return (
        f"{marks}: {name_text(row)}{zone}, "
        f"{in_days(days_of(row.cost, is_spot=is_spot))}, {price} {how}"
    )


def _unfit_lines(plan: "TrainingPlan") -> list[str]:
    """A line for each run of sizes of a generation that the model does not fit, and why."""
    if plan.spec.slices.types:
        return []
    lines = []
    for (_, is_possible, _), group in groupby(plan.rows, key=_cause):
        if is_possible:
            continue
        rows = list(group)
        first, last = rows[0], rows[-1]
        if first is last:
            lines.append(f"{name_text(last)} does not fit: {last.why}")
        else:
            names = f"{name_text(first)} to {name_text(last)}"
            lines.append(f"{names} do not fit; {name_text(last)}: {last.why}")
    return lines


def _cause(row: PlannedSlice) -> tuple[str, bool, bool]:
    """What rows beside each other share: generation, whether they fit, whether memory lacks."""
    return row.where.kind.generation, row.is_possible, row.needed_bytes is None


def _foundations(plan: "TrainingPlan") -> list[str]:
    """What the figures rest on: a job's steps, and what is taken to hold of spot capacity."""
    from tpuctl.perfmodel.workload.training.train_constants import has_foreign_steps_only

    lines = []
    if measured := plan.calibration:
        lines.append(
            f"calibrated: {measured.steps} steps of job {measured.job_id} on "
            f"{measured.accelerator_type} took {seconds_text(measured.measured_s)} each, modelled "
            f"{seconds_text(measured.modelled_s)}: all times are multiplied by {measured.ratio:.3g}"
        )
    foreign = {row.where.kind.generation for row in plan.rows if row.is_possible}
    if names := sorted(filter(has_foreign_steps_only, foreign)):
        lines.append(
            f"of {' and '.join(names)} only steps of other frameworks than MaxText are published; "
            "many took longer than modelled, and the interval is that wide"
        )
    dates = sorted({row.where.on_demand.as_of for row in plan.rows if row.where.on_demand})
    if dates:
        lines.append(
            f"prices as of {' to '.join({dates[0]: 0, dates[-1]: 0})}: tpuctl catalog prices"
        )
    every = f"{three_digits(plan.assumed.preempted_every_s / 3600)} h"
    lines.append(
        f"assumed of spot: a preemption of each slice every {every}, "
        f"{plan.assumed.ready_s / 60:g} min until the program runs again, without the wait for "
        "capacity"
    )
    return lines


def _draw(runtime: Runtime, plot: Path, plan: "TrainingPlan") -> None:
    from tpuctl.operations.planning.plots.plan_plot import plot_plan

    if plot_plan(plot, _title(plan), plan.rows, is_spot=plan.spec.slices.is_spot):
        runtime.output.note(f"drawn: {plot}")
