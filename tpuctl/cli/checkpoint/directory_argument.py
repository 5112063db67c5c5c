"""The arguments DIR and --step, and what they mean."""

from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli.shell.options import completed_by
from tpuctl.cli.shell.runtime import Runtime

if TYPE_CHECKING:
    from tpuctl.operations.checkpoints.survey import CheckpointLocation, DirectorySurvey

Dir = Annotated[
    str,
    typer.Argument(
        metavar="DIR",
        help="gs://BUCKET/DIR, a job (where it saves) or a path (./DIR).",
        autocompletion=completed_by("checkpoint directory"),
    ),
]
Step = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Which step: its number or name. Default: the newest good one.",
        autocompletion=completed_by("step"),
    ),
]


def survey_directory(runtime: Runtime, text: str) -> "DirectorySurvey":
    """The steps of the directory that `text` means; NotFoundError when it has none."""
    from tpuctl.operations.checkpoints import survey

    return survey.survey_directory(resolve_directory(runtime, text))


def resolve_directory(runtime: Runtime, text: str) -> "CheckpointLocation":
    """The directory that `text` means; says so on stderr when it named a job."""
    from tpuctl.operations.checkpoints import survey

    place = survey.resolve_directory(
        text, runtime.store, has_jobs=lambda: not runtime.is_never_started
    )
    if place.job:
        runtime.output.note(f"job {place.job} saves to {place.url}")
    return place
