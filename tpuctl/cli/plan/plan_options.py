"""The options that both verbs of `plan` take, and their values under the paths of a plan file."""

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli.shell.options import completed_by, generation_option, type_option

if TYPE_CHECKING:
    from tpuctl.cli.shell.runtime import Runtime
    from tpuctl.models.planning.plan_spec import ModelChoice
    from tpuctl.operations.planning.given_values import GivenValue
    from tpuctl.perfmodel.workload.program.term_calibration import TermCalibration

File = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="A plan file; options are stronger.")
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="A public model, such as llama-3-8b.",
        autocompletion=completed_by("model"),
    ),
]
Types = Annotated[
    str | None,
    type_option(
        "Only these types; default: those with a price (tpuctl help planning).",
        metavar="TYPE,TYPE",
    ),
]
Generations = Annotated[
    str | None, generation_option("Only these generations, such as v5e.", metavar="NAME,NAME")
]
NumSlices = Annotated[
    str | None, typer.Option(metavar="N", help="So many slices of each type; default: 1.")
]
Spot = Annotated[bool, typer.Option("--spot", help="Choose by what spot capacity takes and costs.")]
Explain = Annotated[
    bool,
    typer.Option("--explain", help="Show where the time of one row goes."),
]
Calibrate = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Scale the terms by these measurements: `tpuctl bench NODE --output FILE`.",
    ),
]
PlotFile = Annotated[
    Path | None,
    typer.Option(
        "--plot", metavar="FILE", help="Draw it too, a .png or a .svg; it needs matplotlib."
    ),
]


_THREADS = "OPENBLAS_NUM_THREADS"


def load_numpy() -> None:
    """Load numpy without threads for its linear algebra, of which a plan has none.

    They take 20 ms of a command to start. Programs that this one starts have theirs.
    """
    if _THREADS in os.environ:
        return
    os.environ[_THREADS] = "1"
    try:
        importlib.import_module("numpy")
    finally:
        del os.environ[_THREADS]


def given_values(
    runtime: "Runtime", file: Path | None, typed: dict[str, tuple[str, str | None]]
) -> "dict[str, GivenValue]":
    """What the file says, and over it what was typed: path -> option and its text."""
    from tpuctl.operations.planning.given_values import GivenValue, read_file

    values = dict(read_file(file)) if file else {}
    zone = {"slices.zone": ("--zone", runtime.shared.zone)}
    for path, (option, text) in {**typed, **zone}.items():
        if text is None:
            continue
        for key in [key for key in values if key == path or key.startswith(f"{path}.")]:
            del values[key]
        values[path] = GivenValue(text, option)
    return values


def file_calibration(file: Path | None) -> "TermCalibration | None":
    """The factors of a file of measurements, where one is given."""
    if file is None:
        return None
    from tpuctl.operations.workers.bench_file import slice_calibration

    return slice_calibration(file)


def show_factors(runtime: "Runtime", factors: "TermCalibration | None") -> None:
    """Say on stderr by what terms are multiplied."""
    for text in factors.texts if factors else ():
        runtime.output.note(f"calibrated: {text}")


def show_context(runtime: "Runtime", choice: "ModelChoice", tokens: int) -> None:
    """Warn of a sequence that is longer than a public model reads."""
    if choice.name is None:
        return
    from tpuctl import catalog

    model = catalog.public_model(choice.name)
    if tokens > model.context_tokens:
        runtime.output.warn(
            f"{model.name} reads {model.context_tokens:,} tokens at most: a sequence of {tokens:,} "
            "is planned as if its context were longer"
        )


def check_plot(plot: Path) -> None:
    """Refuse a picture that cannot be drawn, before anything is reckoned."""
    from tpuctl.metrics.exporters import metric_plot

    metric_plot.check_format(plot)
    metric_plot.require_matplotlib()
