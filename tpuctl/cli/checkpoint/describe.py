"""`tpuctl checkpoint describe`: one step, its tensors, and what is in them."""

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import typer

from tpuctl.cli.checkpoint.directory_argument import Dir, Step, survey_directory
from tpuctl.cli.checkpoint.list import COLUMNS
from tpuctl.cli.shell.copy_progress import size_text
from tpuctl.cli.shell.detail_view import DetailBlock, DetailView, print_details
from tpuctl.cli.shell.output import Moment, age
from tpuctl.cli.shell.progress_display import show_byte_bar
from tpuctl.cli.shell.runtime import Runtime

if TYPE_CHECKING:
    from tpuctl.operations.checkpoints.step_view import StepView, TensorView
    from tpuctl.operations.checkpoints.survey import FoundStep


def describe(ctx: typer.Context, directory: Dir, step: Step = None) -> None:
    """Show a step: who wrote it and when, and its tensors with norm, NaN and Inf counts.

    It is read for that, and verified on the way.
    """
    from tpuctl.operations.checkpoints.describe import read_tensors

    runtime = ctx.ensure_object(Runtime)
    chosen = survey_directory(runtime, directory).choose(step)
    with show_byte_bar(runtime, chosen.view.size_bytes) as advance:
        tensors, why = read_tensors(chosen, advance)
    if why:
        runtime.output.warn(f"the tensors are not shown: {why}")
    if runtime.output.is_table:
        print_details(runtime.output, _detail_view(runtime, chosen, tensors))
    else:
        whole = document(chosen, tensors)
        runtime.output.item(whole, {key: itemgetter(key) for key in whole})


def document(step: "FoundStep", tensors: "list[TensorView]") -> dict[str, Any]:
    """A step and its tensors as `-o json` shows them. Keys are public."""
    from tpuctl.operations.checkpoints.describe import facts

    return {
        **{key: get(step.view) for key, get in COLUMNS.items()},
        **facts(step),
        "tensors": [
            {
                "name": one.name,
                "dtype": one.dtype,
                "shape": None if one.shape is None else list(one.shape),
                "norm": one.norm,
                "nan_count": one.nan_count,
                "inf_count": one.inf_count,
            }
            for one in tensors
        ],
    }


def _detail_view(runtime: Runtime, step: "FoundStep", tensors: "list[TensorView]") -> DetailView:
    from tpuctl.operations.checkpoints.describe import facts

    view, known = step.view, facts(step)
    more = [(key, _plain(known[key])) for key in ("parent", "writer", "objects")]
    fields = [(label, text) for label, text in (*_fields(runtime, view), *more) if text]
    title = "tensors (dtype, shape, norm, NaN and Inf)"
    return DetailView(
        f"step {view.handle}",
        view.state.value,
        fields,
        [DetailBlock(title, list(map(_row, tensors)))],
    )


def _fields(runtime: Runtime, view: "StepView") -> Iterator[tuple[str, str]]:
    yield "why", view.reason
    yield "written by", view.kind.value
    if view.committed_s is not None:
        ago = age(runtime.now() - view.committed_s)
        yield "committed", f"{ago} ago ({Moment(view.committed_s)})"
    yield "size", size_text(view.size_bytes)
    if view.save_s is not None:
        waited = "" if view.blocked_s is None else f"; the program waited {view.blocked_s:.3g} s"
        yield "saved in", f"{view.save_s:.3g} s{waited}"
    yield "job", view.job
    yield "attempt", "" if view.attempt is None else str(view.attempt)
    yield "program", view.program
    yield "workers", "" if view.workers is None else str(view.workers)
    yield "fence", "" if view.fence is None else str(view.fence)
    yield "pinned", "yes" if view.pinned else ""


def _row(one: "TensorView") -> tuple[str, ...]:
    shape = "-" if one.shape is None else f"[{', '.join(map(str, one.shape))}]"
    norm = "-" if one.norm is None else f"{one.norm:.6g}"
    counts = ((one.nan_count, "NaN"), (one.inf_count, "Inf"))
    bad = ", ".join(f"{count} {what}" for count, what in counts if count)
    return one.name, one.dtype or "-", shape, norm, bad


def _plain(value: Any) -> str:
    return "" if value is None else str(value)
