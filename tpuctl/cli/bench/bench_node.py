"""`tpuctl bench NODE`: what the chips of a node do, beside what the model says."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tpuctl.cli.shell.options import NodeName
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.listing import Listing
from tpuctl.cli.shell.tables.values import Columns, values_of
from tpuctl.cli.shell.worker_access import accessible_node
from tpuctl.errors import UsageError
from tpuctl.models.planning.amount import seconds_text
from tpuctl.operations.remote.fanout import WorkerReach
from tpuctl.operations.workers import node_bench
from tpuctl.operations.workers.bench_file import (
    DeviceReport,
    MeasuredSlice,
    bench_hardware,
    write_measurements,
)
from tpuctl.operations.workers.node_bench import BenchEvent, ComparedRow
from tpuctl.perfmodel.workload.program.bench_rows import KINDS
from tpuctl.perfmodel.workload.program.bench_rows import MIB as MIB_BYTES

_SIZES = ("exchange", "m", "k", "n", "size_bytes", "layers", "hidden", "rows_per_device")


def case_text(compared: ComparedRow) -> str:
    """What was measured, in a few words."""
    row = compared.row
    if row.kind == "matmul":
        return f"product {row.m} x {row.k} x {row.n} {row.dtype}"
    if row.kind == "train_step":
        return f"train step, {row.layers} layers of {row.hidden}, batch {row.rows_per_device}"
    return f"{row.exchange or 'copy'} of {row.size_bytes / MIB_BYTES:g} MiB"


def _size(name: str, compared: ComparedRow) -> Any:
    """A figure of the case; None where its kind has no such figure."""
    return getattr(compared.row, name) or None


COLUMNS: Columns[ComparedRow] = {
    "kind": lambda compared: compared.row.kind,
    "case": case_text,
    "dtype": lambda compared: compared.row.dtype,
    **{name: partial(_size, name) for name in _SIZES},
    "measured_s": lambda compared: compared.row.measured_s,
    "modelled_s": lambda compared: float(compared.modelled.value_s),
    "modelled_low_s": lambda compared: float(compared.modelled.low_s),
    "modelled_high_s": lambda compared: float(compared.modelled.high_s),
    "ratio": lambda compared: compared.ratio,
    "bound": lambda compared: str(compared.modelled.bound),
}
TABLE: dict[str, Any] = {
    "case": "case",
    "measured": lambda compared: seconds_text(compared.row.measured_s),
    "modelled": lambda compared: seconds_text(float(compared.modelled.value_s)),
    "low": lambda compared: seconds_text(float(compared.modelled.low_s)),
    "high": lambda compared: seconds_text(float(compared.modelled.high_s)),
    "ratio": lambda compared: float(f"{compared.ratio:.3g}"),
    "bound": "bound",
}


def bench_node(
    runtime: Runtime,
    name: NodeName,
    only: Annotated[
        str | None,
        typer.Option(metavar="KIND,KIND", help=f"Of {', '.join(KINDS)}; default: all."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Write the measurements too, for `plan --calibrate` and for the project.",
        ),
    ] = None,
) -> None:
    """Measure the chips of a node beside what the model says.

    Products, memory, collectives and a small train step run with JAX on all workers.

    RATIO is measured over modelled. The chips must be free: no other program may hold them.
    `tpuctl bench NODE` is the same as `tpuctl bench node NODE`.
    """
    kinds = _kinds(only)
    node = accessible_node(runtime, name)
    hardware = bench_hardware(node.accelerator_type)
    reach = WorkerReach(runtime.tpu, runtime.access, node, node.workers)
    runtime.on_interrupt.append("what was measured is not kept")

    def show(event: BenchEvent) -> None:
        if isinstance(event, DeviceReport):
            runtime.output.note(_report_text(event))
        else:
            (compared,) = node_bench.compare_rows(hardware, [event])
            runtime.output.note(f"{case_text(compared)}: {seconds_text(event.measured_s)}")

    measured = node_bench.bench_node(reach, kinds, show)
    if output:
        write_measurements(output, measured, runtime.now())
    _print_rows(runtime, measured, node_bench.compare_rows(hardware, measured.rows))


def _print_rows(runtime: Runtime, measured: MeasuredSlice, rows: list[ComparedRow]) -> None:
    report = measured.report
    if not report.is_tpu:
        runtime.output.warn(
            f"JAX on the workers has no TPU: it measured {report.devices} x {report.device_kind} "
            f"({report.platform}), and the modelled times are those of {measured.accelerator_type}"
        )
    if runtime.output.is_document:
        runtime.output.fields(
            {
                "accelerator_type": measured.accelerator_type,
                "runtime_version": measured.runtime_version,
                "jax": report.jax,
                "platform": report.platform,
                "device_kind": report.device_kind,
                "devices": report.devices,
                "rows": [values_of(row, COLUMNS) for row in rows],
            }
        )
        return
    runtime.output.items(rows, Listing(COLUMNS, TABLE, least=("high", "low", "bound")))


def _report_text(report: DeviceReport) -> str:
    return f"JAX {report.jax} has {report.devices} x {report.device_kind} ({report.platform})"


def _kinds(text: str | None) -> list[str]:
    if text is None:
        return list(KINDS)
    kinds = [kind.strip() for kind in text.split(",")]
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"--only takes {', '.join(KINDS)}, not {kind!r}")
    return kinds
