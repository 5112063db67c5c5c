"""`tpuctl local bench`: times of this machine, measured, beside those of a chip, modelled."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from tpuctl import catalog
from tpuctl.byte_size import size_text
from tpuctl.cli.shell.options import type_option
from tpuctl.cli.shell.progress_display import show_spinner
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import Columns
from tpuctl.models.duration import parse_duration
from tpuctl.operations.local.bench import BenchRow, bench_rows

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
MATMUL: Columns[BenchRow] = {
    "dtype": lambda row: row["dtype"],
    "m x k x n": lambda row: f"{row['m']}x{row['k']}x{row['n']}",
    "backend": lambda row: row["backend"],
    "measured": lambda row: _measured_text(row),
    "gop/s": lambda row: _digits(row["host_measured_ops_per_s"] / 1e9),
    "modelled": lambda row: _modelled_text(row),
    "top/s": lambda row: _digits(row["chip_modelled_ops_per_s"] / 1e12),
}
COLLECTIVES: Columns[BenchRow] = {
    "operation": lambda row: row["operation"],
    "array": lambda row: size_text(row["size_bytes"]),
    "measured": lambda row: _measured_text(row),
    "mb/s": lambda row: _digits(row["host_measured_bytes_per_s"] / 1e6),
    "modelled": lambda row: _modelled_text(row),
    "gb/s": lambda row: _digits(row["chip_modelled_bytes_per_s"] / 1e9),
}


def bench(
    runtime: Runtime,
    accelerator_type: Annotated[
        str,
        type_option("The slice to imitate."),
    ] = catalog.default_type("bench"),
    limit: Annotated[
        str, typer.Option(metavar="DURATION", help="Stop measuring after that time.")
    ] = "60s",
) -> None:
    """Measure the simulated chips.

    Products and exchanges of arrays: times on this machine, and modelled times of real chips.

    MEASURED is this machine's; MODELLED what the chips would have taken, with its interval. The
    workers of the type are processes of this machine; no local cloud needs to run.
    """
    limit_s = parse_duration(limit)
    with bench_rows(accelerator_type, limit_s) as rows:
        about = next(rows)
        text = f"measuring {accelerator_type}, {limit_s:.0f} s at most"
        measured = []
        with show_spinner(runtime, text, total=int(about["rows"])) as count:
            for row in rows:
                measured.append(row)
                count()
    # As they come, the small ones are first; a table compares what has one format.
    matmul = sorted(
        (row for row in measured if row["kind"] == "matmul"), key=lambda row: str(row["dtype"])
    )
    collectives = [row for row in measured if row["kind"] == "collective"]
    left_out = about["rows"] - len(measured)
    if runtime.output.is_document:
        runtime.output.document(_document(about, matmul, collectives, left_out))
        return
    _tables(runtime, about, matmul, collectives)
    if left_out:
        runtime.output.note(f"left out, as {limit_s:.0f} s are over: {left_out} of {about['rows']}")


def _tables(
    runtime: Runtime, about: BenchRow, matmul: Sequence[BenchRow], collectives: Sequence[BenchRow]
) -> None:
    here = f"measured on {about['processors']} processors"
    title = f"matmul {here}, modelled for one {about['generation']} chip"
    runtime.output.items(matmul, MATMUL, title=title)
    if collectives:
        if runtime.output.is_terminal:
            runtime.output.line("")
        title = f"collectives {here}, modelled for {about['accelerator_type']}"
        runtime.output.items(collectives, COLLECTIVES, title=title)


def _document(
    about: BenchRow, matmul: Sequence[BenchRow], collectives: Sequence[BenchRow], left_out: int
) -> Mapping[str, Any]:
    return {
        **_without(about, "kind", "rows"),
        "matmul": [_without(row, "kind") for row in matmul],
        "collectives": [_without(row, "kind") for row in collectives],
        "left_out": left_out,
    }


def _without(row: BenchRow, *names: str) -> BenchRow:
    return {key: value for key, value in row.items() if key not in names}


def _measured_text(row: BenchRow) -> str:
    size, unit = _unit(row["host_measured_s"])
    return f"{_digits(row['host_measured_s'] / size):g} {unit}"


def _modelled_text(row: BenchRow) -> str:
    """A modelled value with its interval, in one unit."""
    size, unit = _unit(row["chip_modelled_s"])
    value, low, high = (
        _digits(row[key] / size)
        for key in ("chip_modelled_s", "chip_modelled_low_s", "chip_modelled_high_s")
    )
    return f"{value:g} {unit} ({low:g}-{high:g})"


def _unit(seconds: float) -> tuple[float, str]:
    return next((each for each in _UNITS if seconds >= each[0]), _UNITS[-1])


def _digits(number: float) -> float | int:
    """A number with three significant digits."""
    return round(number) if number >= 100 else float(f"{number:.3g}")
