"""`tpuctl predict`: files of a bucket become files of predictions, by a job of its own."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli.job.submit import run_job, show_plan
from tpuctl.cli.shell.options import OverBudget, completed_by, type_option
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import Columns, Usd, attributes
from tpuctl.errors import UsageError

if TYPE_CHECKING:
    from tpuctl.operations.jobs.predictions import PredictSummary

NO_FILE = Path("the command line")


def predict(
    runtime: Runtime,
    source: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT|JOB",
            help="gs://BUCKET/PREFIX of a checkpoint, or a job that has one.",
            autocompletion=completed_by("job"),
        ),
    ],
    input: Annotated[
        str,
        typer.Option(
            metavar="URL", help="gs://BUCKET/PREFIX or a pattern: npz, npy, csv, jsonl, parquet."
        ),
    ],
    output: Annotated[
        str, typer.Option(metavar="URL", help="gs://BUCKET/PREFIX of its own, beside the input.")
    ],
    program: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Has load(checkpoint) and predict(model, batch)."),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            metavar="LINE", help="In place of a program: reads $INPUT and writes $OUTPUT."
        ),
    ] = None,
    step: Annotated[
        int | None, typer.Option(metavar="STEP", min=0, help="Of the checkpoint; else the newest.")
    ] = None,
    accelerator_type: Annotated[
        str | None,
        type_option("Of the slice; else that of the job."),
    ] = None,
    spot: Annotated[bool, typer.Option("--spot", help="Cheaper, and may be taken away.")] = False,
    format: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="Of the outputs: npz, csv, jsonl or parquet."),
    ] = None,
    unit_rows: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Rows of an output; else 8192.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Rows of a batch; else 1024.")
    ] = None,
    max_rejects: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Fail with more rejected rows.")
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Of the job.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done and cost; write nothing.")
    ] = False,
    over_budget: OverBudget = False,
) -> None:
    """Predict files of a bucket on a slice of their own, each row exactly once.

    Follows the job to its end, verifies the outputs and says what they cost.
    """
    from tpuctl.operations.jobs import predictions, queries
    from tpuctl.operations.jobs.submit import JobRequest

    if program is not None and command is not None:
        raise UsageError("--program and --command exclude each other", hint="give one of them")
    runtime.refuse_other_project()
    spec = predictions.build_spec(
        runtime,
        predictions.PredictRequest(
            source, input, output, program, command, step, format, unit_rows, batch, max_rejects,
            accelerator_type, spot, name,
        ),
    )  # fmt: skip
    request = JobRequest(NO_FILE, None, runtime.shared.zone, spec=spec, over_budget=over_budget)
    if dry_run:
        show_plan(runtime, request)
        return
    job = run_job(runtime, request)
    ended = queries.find_job(runtime, job.job_id)
    summary = predictions.summarize_predictions(runtime, ended)
    runtime.output.fields({key: get(summary) for key, get in SUMMARY.items()})


def _usd(value: float | None) -> Usd | None:
    return None if value is None else Usd(value)


SUMMARY: "Columns[PredictSummary]" = {
    **attributes("job_id", "output", "rows", "rejected", "units"),
    "time_s": lambda summary: None if summary.time_s is None else round(summary.time_s, 1),
    "rows_per_s": lambda found: None if found.rows_per_s is None else round(found.rows_per_s, 1),
    "usd": lambda summary: _usd(summary.usd),
    "usd_per_million_rows": lambda summary: _usd(summary.usd_per_million_rows),
}
"""The summary as a JSON object. Keys are public."""
