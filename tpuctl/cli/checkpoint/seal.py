"""`tpuctl checkpoint seal`: write down the objects of a step of another framework."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.byte_size import size_text
from tpuctl.cli.checkpoint.directory_argument import Dir, resolve_directory, survey_directory
from tpuctl.cli.checkpoint.list import print_steps
from tpuctl.cli.shell.options import completed_by
from tpuctl.cli.shell.progress_display import show_spinner
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import Columns, attributes, sizes
from tpuctl.errors import UsageError

if TYPE_CHECKING:
    from tpuctl.operations.checkpoints.foreign.foreign_steps import ForeignStep
    from tpuctl.operations.checkpoints.seal import SealResult
    from tpuctl.operations.checkpoints.survey import DirectorySurvey

COLUMNS: Columns["ForeignStep"] = {
    **attributes(step="view.step", kind="view.kind.value", name="view.name"),
    "objects": lambda step: len(step.entries),
    **attributes(size_bytes="view.size_bytes"),
}
"""Keys and order are public."""
SCREEN: Columns["ForeignStep"] = {
    **attributes(step="view.handle", kind="view.kind.value"),
    "objects": COLUMNS["objects"],
    **sizes(size="view.size_bytes"),
}
"""What people see."""


def seal(
    runtime: Runtime,
    directory: Dir,
    step: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="This one alone: its number or name.",
            autocompletion=completed_by("step"),
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Seal each step as it becomes complete, until Ctrl-C."),
    ] = False,
) -> None:
    """Record the checksums of steps that others wrote.

    The size, generation and checksum of every object are kept.

    Orbax, PyTorch DCP and safetensors restore damaged bytes silently; `verify` finds them then.
    Without --step every complete step that is not sealed yet. Nothing is written into a step.
    """
    from tpuctl.operations.checkpoints.seal import require_sealed, steps_to_seal

    if watch:
        if step is not None:
            raise UsageError("--watch and --step exclude each other", hint="leave one of them out")
        _watch(runtime, directory)
        return
    survey = survey_directory(runtime, directory)
    results = _seal_steps(runtime, steps_to_seal(survey, step))
    sealed = [result.step for result in results if result.error is None]
    print_steps(runtime.output, sealed, COLUMNS, SCREEN)
    require_sealed(results)
    _print_summary(runtime, survey, sealed)


def _seal_steps(runtime: Runtime, steps: "Sequence[ForeignStep]") -> "list[SealResult]":
    from tpuctl.operations.checkpoints.seal import seal_steps

    results = []
    for result in seal_steps(
        steps,
        runtime.now,
        lambda step: show_spinner(runtime, f"sealing step {step.view.handle}"),
    ):
        results.append(result)
        if result.error and len(steps) > 1:
            runtime.output.warn(f"step {result.step.view.handle}: {result.error}")
    return results


def _print_summary(
    runtime: Runtime, survey: "DirectorySurvey", sealed: "Sequence[ForeignStep]"
) -> None:
    if sealed:
        size = size_text(sum(each.view.size_bytes for each in sealed))
        what = f"step{'s' * (len(sealed) > 1)} {', '.join(each.view.handle for each in sealed)}"
        runtime.output.note(
            f"sealed {what} ({size}): tpuctl checkpoint verify {survey.place.typed}"
        )
        return
    count = sum(each.view.state == "COMPLETE" for each in survey.foreign)
    runtime.output.note(f"nothing to seal: {count} of {len(survey.foreign)} steps are sealed")


def _watch(runtime: Runtime, directory: str) -> None:
    from tpuctl.operations.checkpoints.seal import watch_and_seal

    place = resolve_directory(runtime, directory)
    runtime.output.note(f"sealing each step of {place.url} as it becomes complete; Ctrl-C ends it")
    runtime.on_interrupt.append("sealed steps stay sealed; nothing else goes on")
    steps = watch_and_seal(
        place.url,
        place.open_store,
        clock=runtime.now,
        sleep=runtime.sleep,
        trouble=lambda error: runtime.output.warn(str(error)),
    )
    for step in steps:
        _print_sealed(runtime, step)


def _print_sealed(runtime: Runtime, step: "ForeignStep") -> None:
    """One step at a time: whoever reads it may act on each."""
    output = runtime.output
    if output.is_document:
        output.item(step, COLUMNS)
    elif not output.is_screen:
        output.items([step], COLUMNS)
    runtime.out.flush()
    output.note(f"sealed step {step.view.handle} ({size_text(step.view.size_bytes)})")
