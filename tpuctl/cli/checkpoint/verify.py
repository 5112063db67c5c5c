"""`tpuctl checkpoint verify`: every byte of a step is read."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.byte_size import size_text
from tpuctl.cli.checkpoint.directory_argument import Dir, Step, survey_directory
from tpuctl.cli.checkpoint.list import print_steps
from tpuctl.cli.shell.progress_display import show_byte_bar
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import Columns, attributes, sizes
from tpuctl.errors import UsageError

if TYPE_CHECKING:
    from tpuctl.operations.checkpoints.survey import FoundStep
    from tpuctl.operations.checkpoints.verify import VerifyResult

COLUMNS: Columns["VerifyResult"] = {
    **attributes(step="view.step", verdict="verdict.value", size_bytes="view.size_bytes"),
    **attributes(kind="view.kind.value", name="view.name"),
    "why": lambda result: result.why or None,
}
"""Keys and order are public."""
SCREEN: Columns["VerifyResult"] = {
    **attributes(step="view.handle", verdict="verdict.value"),
    **sizes(size="view.size_bytes"),
    **attributes("why"),
}
"""What people see."""


def verify(
    runtime: Runtime,
    directory: Dir,
    step: Step = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every step, also those that were rolled back.")
    ] = False,
) -> None:
    """Read every byte of a step and compare checksums.

    A step of tpuctl that differs is marked: no run goes on from it, nor does prune count it.
    One that was copied here, or marked before, and does not differ, is COMPLETE from then on.
    A step of another framework can be compared once it was sealed: tpuctl checkpoint seal.
    """
    if every and step is not None:
        raise UsageError("--all and --step exclude each other", hint="leave one of them out")
    from tpuctl.operations.checkpoints.verify import require_whole

    survey = survey_directory(runtime, directory)
    steps = survey.steps if every else [survey.choose(step)]
    if step is None and not every:
        for view in survey.corrupt_after(steps[0]):
            runtime.output.warn(f"step {view.handle} is newer, and CORRUPT: {view.reason}")
    results = read_steps(runtime, steps)
    print_steps(runtime.output, results, COLUMNS, SCREEN)
    require_whole(survey.place, results)
    _print_summary(runtime, results)


def read_steps(runtime: Runtime, steps: Sequence["FoundStep"]) -> list["VerifyResult"]:
    """Read the steps, with a bar of bytes; a corrupt step of tpuctl is marked."""
    from tpuctl.operations.checkpoints.verify import verify_steps

    with show_byte_bar(runtime, sum(step.view.size_bytes for step in steps)) as advance:
        results = verify_steps(steps, advance)
    for result in results:
        if result.unmarked:
            runtime.output.warn(f"step {result.view.handle} could not be marked: {result.unmarked}")
    return results


def _print_summary(runtime: Runtime, results: Sequence["VerifyResult"]) -> None:
    from tpuctl.operations.checkpoints.verify import StepVerdict, counted

    whole = [result.view for result in results if result.verdict is StepVerdict.WHOLE]
    size = size_text(sum(view.size_bytes for view in whole))
    counts = Counter(result.verdict for result in results)
    rest = [
        f"{counted(counts[verdict])} {verdict}"
        for verdict in (StepVerdict.UNSEALED, StepVerdict.PARTIAL, StepVerdict.GONE)
        if counts[verdict]
    ]
    more = f"; {', '.join(rest)}" if rest else ""
    steps = f"step {whole[0].handle}" if len(whole) == 1 else f"{len(whole)} steps"
    runtime.output.note(f"{steps}: {size}, every byte is what was written{more}")
