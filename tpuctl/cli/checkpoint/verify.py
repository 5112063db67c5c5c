"""`tpuctl checkpoint verify`: every byte of a step is read."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli.checkpoint.directory_argument import Dir, Step, survey_directory
from tpuctl.cli.checkpoint.list import print_steps
from tpuctl.cli.shell.copy_progress import size_text
from tpuctl.cli.shell.output import Columns
from tpuctl.cli.shell.progress_display import show_byte_bar
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import (
    IntegrityError,
    NoCheckpointError,
    PreconditionError,
    TpuctlError,
    UsageError,
)

if TYPE_CHECKING:
    from tpuctl.operations.checkpoints.survey import DirectorySurvey, FoundStep
    from tpuctl.operations.checkpoints.verify import VerifyResult

COLUMNS: Columns["VerifyResult"] = {
    "step": lambda one: one.view.step,
    "verdict": lambda one: one.verdict,
    "size_bytes": lambda one: one.view.size_bytes,
    "kind": lambda one: one.view.kind.value,
    "name": lambda one: one.view.name,
    "why": lambda one: one.why or None,
}
"""Keys and order are public."""
SCREEN: Columns["VerifyResult"] = {
    "step": lambda one: one.view.handle,
    "verdict": lambda one: one.verdict,
    "size": lambda one: size_text(one.view.size_bytes),
    "why": lambda one: one.why,
}
"""What people see."""


def verify(
    ctx: typer.Context,
    directory: Dir,
    step: Step = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every step, also those that were rolled back.")
    ] = False,
) -> None:
    """Read every byte of a step and compare it with what was written.

    A step of tpuctl that differs is marked: no run goes on from it, nor does prune count it.
    A step of another framework can be compared once it was sealed: tpuctl checkpoint seal.
    """
    runtime = ctx.ensure_object(Runtime)
    if every and step is not None:
        raise UsageError("--all and --step exclude each other", hint="leave one of them out")
    survey = survey_directory(runtime, directory)
    steps = survey.steps if every else [survey.choose(step)]
    if step is None and not every:
        _warn_of_newer(runtime, survey, steps[0])
    verdicts = read_steps(runtime, steps)
    print_steps(runtime.output, verdicts, COLUMNS, SCREEN)
    _raise_unless_whole(runtime, survey, verdicts)


def _warn_of_newer(runtime: Runtime, survey: "DirectorySurvey", chosen: "FoundStep") -> None:
    newer = survey.steps[survey.steps.index(chosen) + 1 :]
    for view in (each.view for each in newer if each.view.state == "CORRUPT"):
        runtime.output.warn(f"step {view.handle} is newer, and CORRUPT: {view.reason}")


def read_steps(runtime: Runtime, steps: Sequence["FoundStep"]) -> list["VerifyResult"]:
    """What is found of each; a step of ours that is corrupt is marked."""
    from tpuctl.operations.checkpoints.verify import verify_found_step as read

    total = sum(each.view.size_bytes for each in steps)
    with show_byte_bar(runtime, total) as advance:
        verdicts = [read(each, advance) for each in steps]
    _mark_corrupt(runtime, verdicts)
    return verdicts


def _mark_corrupt(runtime: Runtime, verdicts: Sequence["VerifyResult"]) -> None:
    from tpuctl.operations.checkpoints.verify import mark_if_corrupt

    for each in verdicts:
        try:
            mark_if_corrupt(each)
        except TpuctlError as error:  # who may read may not write, perhaps
            runtime.output.warn(f"step {each.view.handle} could not be marked: {error}")


def _raise_unless_whole(
    runtime: Runtime, survey: "DirectorySurvey", verdicts: Sequence["VerifyResult"]
) -> None:
    """Tell it in one line, and fail unless everything that can be compared is whole."""
    of = {
        kind: [each for each in verdicts if each.verdict == kind]
        for kind in ("whole", "corrupt", "unsealed", "partial", "gone")
    }
    if of["corrupt"]:
        first = of["corrupt"][0]
        raise IntegrityError(
            f"{_counted(of['corrupt'])} corrupt: step {first.view.handle}: {first.why}",
            hint=_corrupt_hint(survey, first),
        )
    if not of["whole"] and of["unsealed"]:
        raise PreconditionError(
            f"{_counted(of['unsealed'])} not sealed: there is nothing to compare with",
            hint=f"seal it while it is surely good: tpuctl checkpoint seal {survey.place.typed}",
        )
    if not of["whole"]:
        first = verdicts[-1]
        raise NoCheckpointError(
            f"step {first.view.handle} is {first.verdict}: {first.why}",
            hint=f"run: tpuctl checkpoint list {survey.place.typed}",
        )
    size = size_text(sum(each.view.size_bytes for each in of["whole"]))
    rest = [_counted(of[kind]) + f" {kind}" for kind in ("unsealed", "partial", "gone") if of[kind]]
    told = f"; {', '.join(rest)}" if rest else ""
    count = len(of["whole"])
    steps = f"step {of['whole'][0].view.handle}" if count == 1 else f"{count} steps"
    runtime.output.note(f"{steps}: {size}, every byte is what was written{told}")


def _corrupt_hint(survey: "DirectorySurvey", corrupt: "VerifyResult") -> str:
    every = f"tpuctl checkpoint verify {survey.place.typed} --all"
    if corrupt.view.kind == "tpuctl":
        return f"a run takes the newest good step; which are: {every}"
    return f"{corrupt.view.kind.value} restores it all the same: name a good one to it; {every}"


def _counted(found: Sequence["VerifyResult"]) -> str:
    return "1 step is" if len(found) == 1 else f"{len(found)} steps are"
