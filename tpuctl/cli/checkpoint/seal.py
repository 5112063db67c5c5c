"""`tpuctl checkpoint seal`: what a step of another framework consists of is written down."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli.checkpoint.directory_argument import Dir, resolve_directory, survey_directory
from tpuctl.cli.checkpoint.list import print_steps
from tpuctl.cli.shell.copy_progress import size_text
from tpuctl.cli.shell.output import Columns
from tpuctl.cli.shell.progress_display import show_spinner
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import PartialFailureError, PreconditionError, TpuctlError, UsageError

if TYPE_CHECKING:
    from tpuctl.operations.checkpoints.foreign.foreign_steps import ForeignStep
    from tpuctl.operations.checkpoints.survey import DirectorySurvey

COLUMNS: Columns["ForeignStep"] = {
    "step": lambda one: one.view.step,
    "kind": lambda one: one.view.kind.value,
    "name": lambda one: one.view.name,
    "objects": lambda one: len(one.entries),
    "size_bytes": lambda one: one.view.size_bytes,
}
"""Keys and order are public."""
SCREEN: Columns["ForeignStep"] = {
    "step": lambda one: one.view.handle,
    "kind": COLUMNS["kind"],
    "objects": COLUMNS["objects"],
    "size": lambda one: size_text(one.view.size_bytes),
}
"""What people see."""


def seal(
    ctx: typer.Context,
    directory: Dir,
    step: Annotated[
        str | None, typer.Option(metavar="N", help="This one alone: its number or name.")
    ] = None,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Seal each step as it becomes complete, until Ctrl-C."),
    ] = False,
) -> None:
    """Write down size, generation and checksum of every object of steps that others wrote.

    Orbax, PyTorch DCP and safetensors restore damaged bytes silently; `verify` finds them then.
    Without --step every complete step that is not sealed yet. Nothing is written into a step.
    """
    runtime = ctx.ensure_object(Runtime)
    if watch:
        if step is not None:
            raise UsageError("--watch and --step exclude each other", hint="leave one of them out")
        _watch(runtime, directory)
        return
    survey = survey_directory(runtime, directory)
    sealed, errors = _seal(runtime, _steps_to_seal(survey, step))
    print_steps(runtime.output, sealed, COLUMNS, SCREEN)
    if not errors:
        _print_summary(runtime, survey, sealed)
    elif len(errors) == 1 and not sealed:
        raise errors[0]
    else:
        raise PartialFailureError(
            f"{len(errors)} of {len(errors) + len(sealed)} steps were not sealed: {errors[0]}",
            hint="run the same command again",
        )


def _steps_to_seal(survey: "DirectorySurvey", step: str | None) -> "Sequence[ForeignStep]":
    from tpuctl.operations.checkpoints.own_steps import OwnStep

    if step is None:
        if survey.foreign:
            return [each for each in survey.foreign if each.view.state == "UNSEALED"]
        raise PreconditionError(
            f"every step in {survey.place.url} is tpuctl's own: its COMMIT is its seal",
            hint=f"run: tpuctl checkpoint verify {survey.place.typed}",
        )
    found = survey.choose(step)
    if isinstance(found, OwnStep):
        raise PreconditionError(
            f"step {found.view.handle} is tpuctl's own: its COMMIT is its seal",
            hint=f"run: tpuctl checkpoint verify {survey.place.typed} --step {found.view.handle}",
        )
    return [found]


def _seal(
    runtime: Runtime, steps: "Sequence[ForeignStep]"
) -> "tuple[list[ForeignStep], list[TpuctlError]]":
    from tpuctl.operations.checkpoints.foreign.seal import seal_step as write

    sealed, errors = [], []
    for each in steps:
        try:
            with show_spinner(runtime, f"sealing step {each.view.handle}"):
                write(each, now_s=runtime.now())
        except TpuctlError as error:
            errors.append(error)
            if len(steps) > 1:
                runtime.output.warn(f"step {each.view.handle}: {error}")
        else:
            sealed.append(each)
    return sealed, errors


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
    from tpuctl.operations.checkpoints.seal_watch import watch_and_seal

    there = resolve_directory(runtime, directory)
    runtime.output.note(f"sealing each step of {there.url} as it becomes complete; Ctrl-C ends it")
    runtime.on_interrupt.append("what was sealed stays sealed; nothing else goes on")
    found = watch_and_seal(
        there.url,
        there.open_store,
        clock=runtime.now,
        sleep=runtime.sleep,
        trouble=lambda error: runtime.output.warn(str(error)),
    )
    for step in found:
        _print_sealed(runtime, step)


def _print_sealed(runtime: Runtime, step: "ForeignStep") -> None:
    """One step at a time: whoever reads it may act on each."""
    output = runtime.output
    if output.is_document:
        output.item(step, COLUMNS)
    elif not (output.is_terminal and output.is_table):
        output.items([step], COLUMNS)
    runtime.out.flush()
    output.note(f"sealed step {step.view.handle} ({size_text(step.view.size_bytes)})")
