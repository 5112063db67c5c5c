"""`tpuctl plan --from-jax MODULE:FUNCTION`: how long a JAX function takes on slices."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpuctl.byte_size import size_text
from tpuctl.cli.plan.plan_columns import quantity_of, rounded
from tpuctl.cli.plan.plan_options import (
    Calibrate,
    Explain,
    Generations,
    Types,
    file_calibration,
    given_values,
    show_factors,
)
from tpuctl.cli.shell.parsing import seconds
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.listing import Listing, choose_rows, declare_keys
from tpuctl.cli.shell.tables.values import Columns, attributes, plain, size_of, usd_of, values_of
from tpuctl.errors import UsageError
from tpuctl.models.planning.amount import seconds_text

if TYPE_CHECKING:
    from tpuctl.operations.planning.tracing.traced_plan import OperationShare, TracedRow
    from tpuctl.operations.planning.tracing.traced_program import TracedProgram

MOST_OPERATIONS = 20


def _estimate(name: str, digits: int = 6) -> Any:
    def get(row: "TracedRow") -> Any:
        figure = getattr(row.estimate, name, None)
        return rounded(figure, digits) if isinstance(figure, float) else figure

    return get


def _terms(row: "TracedRow") -> dict[str, float | None] | None:
    if row.estimate is None:
        return None
    return {name: rounded(float(term), 4) for name, term in row.estimate.terms.items()}


KEYS: "Columns[TracedRow]" = {
    **attributes(
        accelerator_type="where.kind.name",
        generation="where.kind.generation",
        topology="where.kind.topology",
        zone="where.zone",
        devices="devices",
    ),
    "fits": lambda row: row.fit.value,
    "why": lambda row: row.why or None,
    "time_s": _estimate("value_s"),
    "time_low_s": _estimate("low_s"),
    "time_high_s": _estimate("high_s"),
    "bound": _estimate("bound"),
    "mxu_utilization": lambda row: rounded(row.mxu_utilization, 4),
    "usd_per_million_runs": lambda row: usd_of(rounded(row.usd_per_million_runs, 6)),
    "usable_bytes": lambda row: size_of(round(row.usable_bytes)),
    "terms_s": _terms,
}
"""Keys and order are public."""


def _time(name: str) -> Any:
    return lambda row: quantity_of(getattr(row.estimate, name, None), seconds_text)


TABLE: dict[str, Any] = {
    "type": "accelerator_type", "zone": "zone", "devices": "devices", "fits": "fits",
    "time": _time("value_s"), "low": _time("low_s"), "high": _time("high_s"),
    "bound": "bound",
    "mxu %": lambda row: rounded(row.mxu_utilization and 100 * row.mxu_utilization, 3),
    "usd/M runs": "usd_per_million_runs",
}  # fmt: skip
LISTING = Listing(KEYS, TABLE, least=("high", "low", "zone"))


def _sides(share: "OperationShare") -> str | None:
    operation = share.operation
    if operation.exchange:
        return f"{operation.exchange} of {size_text(operation.read_bytes)}, {operation.ways} ways"
    m, k, n, batch = operation.products
    if not m:
        return size_text(round(operation.hbm_bytes))
    each = f"{m:g} x {k:g} x {n:g}"
    return each if batch == 1 else f"{batch:g} of {each}"


OPERATION_KEYS: "Columns[OperationShare]" = {
    **attributes(
        name="operation.name",
        kind="operation.kind",
        dtype="operation.dtype",
        count="operation.count",
    ),
    "shape": _sides,
    "seconds": lambda share: rounded(share.seconds, 4),
    "share": lambda share: rounded(share.share, 4),
    "padding": lambda share: rounded(share.padding, 4),
}


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


OPERATION_TABLE: dict[str, Any] = {
    "operation": "name", "times": lambda share: f"{share.operation.count:g}", "shape": "shape",
    "time": lambda share: quantity_of(share.seconds, seconds_text),
    "share": lambda share: quantity_of(share.share, _percent),
    "padding": lambda share: quantity_of(share.padding, _percent),
}  # fmt: skip
OPERATIONS = Listing(OPERATION_KEYS, OPERATION_TABLE)


@declare_keys(lambda: KEYS)
def program(
    runtime: Runtime,
    from_jax: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="Or FILE.py:FUNCTION: what is traced."),
    ] = None,
    args: Annotated[
        str | None,
        typer.Option(
            metavar="SHAPES",
            help="Its arguments, as 'f32[8,128] i32[8]'. Without it the function takes none and "
            "returns (function, *arguments).",
        ),
    ] = None,
    devices: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=8192,
            help="Devices that JAX shows the function for its mesh; default: those of -t.",
        ),
    ] = None,
    trace_timeout: Annotated[
        float | None,
        typer.Option(metavar="DURATION", parser=seconds, help="How long tracing may take [2m]."),
    ] = None,
    accelerator_type: Types = None,
    generation: Generations = None,
    calibrate: Calibrate = None,
    explain: Explain = False,
) -> None:
    """Plan one run of a JAX function on slices.

    It says how long the run takes, and whether it fits. The function is traced with shapes alone,
    in a process of its own: nothing is compiled or run, and no TPU is needed. Every figure is
    modelled. `tpuctl plan --from-jax ...` is the same.
    """
    if from_jax is None:
        raise UsageError("no function is named", hint="add --from-jax MODULE:FUNCTION")
    from tpuctl.operations.planning.plan_specs import slice_choice
    from tpuctl.operations.planning.tracing import traced_plan
    from tpuctl.operations.planning.tracing.traced_program import (
        DEADLINE_S,
        TraceRequest,
        trace_function,
    )

    choice = slice_choice(
        given_values(
            runtime,
            None,
            {
                "slices.types": ("--accelerator-type", accelerator_type),
                "slices.generations": ("--generation", generation),
            },
        )
    )
    request = TraceRequest(
        from_jax,
        args,
        devices or traced_plan.devices_of(choice),
        trace_timeout or DEADLINE_S,
    )
    traced = trace_function(request, runtime.environ)
    factors = file_calibration(calibrate)
    rows = traced_plan.plan_program(traced, choice, runtime.known_prices, runtime.now(), factors)
    shares = traced_plan.operation_shares(traced, rows[0], MOST_OPERATIONS) if explain else []
    _show(runtime, traced, rows, shares)
    show_factors(runtime, factors)


def _show(
    runtime: Runtime,
    traced: "TracedProgram",
    rows: list["TracedRow"],
    shares: list["OperationShare"],
) -> None:
    output = runtime.output
    if output.is_document:
        chosen = choose_rows(rows, LISTING, output.list_flags)
        output.document(_document(traced, list(chosen), shares))
        return
    name = rows[0].where.kind.name
    if shares:
        output.items(shares, OPERATIONS, title=f"modelled: {traced.target} on {name}")
    else:
        output.items(rows, LISTING, title=f"modelled: one run of {traced.target}")
    output.out.flush()  # the notes below belong below
    output.note(_memory_text(traced))
    for note in traced.notes:
        output.note(f"note: {note}")


def _memory_text(traced: "TracedProgram") -> str:
    arguments, results, peak = (
        size_text(round(each))
        for each in (traced.argument_bytes, traced.result_bytes, traced.peak_bytes)
    )
    return (
        f"memory of a device: arguments {arguments}, results {results}, at most {peak} "
        "(an upper bound: nothing is fused, no argument is donated)"
    )


def _document(
    traced: "TracedProgram", rows: list["TracedRow"], shares: list["OperationShare"]
) -> dict[str, Any]:
    """The plan as `-o json` shows it. Keys are public."""
    document = {
        "label": "modelled",
        "target": traced.target,
        "jax": traced.jax,
        "mesh": dict(traced.mesh),
        "arguments": list(traced.arguments),
        "matmul_flops": traced.matmul_flops,
        "argument_bytes": round(traced.argument_bytes),
        "result_bytes": round(traced.result_bytes),
        "peak_bytes": round(traced.peak_bytes),
        "notes": list(traced.notes),
        "rows": [plain(values_of(row, KEYS)) for row in rows],
        "sources": list(rows[0].estimate.sources) if rows and rows[0].estimate else [],
    }
    if shares:
        document["operations"] = [values_of(share, OPERATION_KEYS) for share in shares]
    return document
