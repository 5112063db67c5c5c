"""`tpuctl checkpoint describe`: one step, its tensors, and what is in them."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tpuctl.byte_size import size_text
from tpuctl.cli.checkpoint.directory_argument import Dir, Step, survey_directory
from tpuctl.cli.checkpoint.list import COLUMNS
from tpuctl.cli.shell.detail_view import DetailBlock, DetailView, print_details
from tpuctl.cli.shell.progress_display import show_byte_bar
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import PointInTime, attributes, values_of
from tpuctl.models.duration import age

if TYPE_CHECKING:
    from tpuctl.operations.checkpoints.step_view import StepView, TensorView


TENSOR = attributes("name", "dtype", "shape", "norm", "nan_count", "inf_count")


def describe(runtime: Runtime, directory: Dir, step: Step = None) -> None:
    """Show a step and its tensors.

    Who wrote it and when; the norm, NaN and Inf count of each tensor.

    It is read for that, and verified on the way.
    """
    from tpuctl.operations.checkpoints.describe import facts, read_tensors

    chosen = survey_directory(runtime, directory).choose(step)
    with show_byte_bar(runtime, chosen.view.size_bytes) as advance:
        tensors, why = read_tensors(chosen, advance)
    if why:
        runtime.output.warn(f"the tensors are not shown: {why}")
    if runtime.output.is_table:
        print_details(runtime.output, _detail_view(runtime, chosen.view, facts(chosen), tensors))
    else:
        runtime.output.fields(document(chosen.view, facts(chosen), tensors))


def document(
    view: "StepView", known: Mapping[str, Any], tensors: "list[TensorView]"
) -> dict[str, Any]:
    """A step, the facts of its manifest and its tensors as `-o json` has them. Keys are public."""
    return {
        **values_of(view, COLUMNS),
        **known,
        "tensors": [values_of(tensor, TENSOR) for tensor in tensors],
    }


def _detail_view(
    runtime: Runtime, view: "StepView", known: Mapping[str, Any], tensors: "list[TensorView]"
) -> DetailView:
    more = [(key, known[key]) for key in ("parent", "writer", "objects")]
    labelled = [*_fields(runtime, view), *more]
    fields = [(label, str(value)) for label, value in labelled if value not in (None, "")]
    title = "tensors (dtype, shape, norm, NaN and Inf)"
    return DetailView(
        f"step {view.handle}",
        view.state.value,
        fields,
        [DetailBlock(title, list(map(_row, tensors)))],
    )


def _fields(runtime: Runtime, view: "StepView") -> Iterator[tuple[str, object]]:
    yield "why", view.reason
    yield "written by", view.kind.value
    if view.committed_s is not None:
        ago = age(runtime.now() - view.committed_s)
        yield "committed", f"{ago} ago ({PointInTime(view.committed_s)})"
    yield "size", size_text(view.size_bytes)
    if view.save_s is not None:
        waited = "" if view.blocked_s is None else f"; the program waited {view.blocked_s:.3g} s"
        yield "saved in", f"{view.save_s:.3g} s{waited}"
    yield "job", view.job
    yield "attempt", view.attempt
    yield "program", view.program
    yield "workers", view.workers
    yield "fence", view.fence
    yield "pinned", "yes" if view.pinned else ""


def _row(tensor: "TensorView") -> tuple[str, ...]:
    shape = "-" if tensor.shape is None else f"[{', '.join(map(str, tensor.shape))}]"
    norm = "-" if tensor.norm is None else f"{tensor.norm:.6g}"
    counts = ((tensor.nan_count, "NaN"), (tensor.inf_count, "Inf"))
    bad = ", ".join(f"{count} {what}" for count, what in counts if count)
    return tensor.name, tensor.dtype or "-", shape, norm, bad
