"""Parquet files, by pyarrow: the extra `parquet`. A unit is one or more whole row groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tpuctl.errors import JobFailedError, UsageError
from tpuctl.serving.batch.formats.file_format import (
    ROW,
    TEXT,
    InputSurvey,
    RejectedRow,
    TableColumn,
    UnitRange,
    UnitRows,
)
from tpuctl.serving.batch.formats.input_reader import InputReader
from tpuctl.serving.datatypes import Array, Batch


class ParquetFiles:
    """.parquet files: columns of numbers, booleans, text, and lists of one length of numbers."""

    def survey(self, source: InputReader, unit_rows: int) -> InputSurvey:
        """The columns and the units of an object; UsageError when it is not a Parquet file."""
        file = _open(source)
        columns = tuple(_column(file, field, source.url) for field in file.schema_arrow)
        return InputSurvey(columns, _group_ranges(file, unit_rows))

    def read(
        self, source: InputReader, unit: UnitRange, columns: Sequence[TableColumn]
    ) -> UnitRows:
        """The rows of some row groups; one with a null that is not a number's is rejected."""
        names = [column.name for column in columns]
        try:
            table = _open(source).read_row_groups(list(range(unit.start, unit.end)), columns=names)
        except (pa.ArrowException, OSError) as error:
            raise UsageError(f"{source.url} cannot be read: {_first_line(error)}") from error
        numbers = np.arange(unit.first_row, unit.first_row + table.num_rows)
        errors: dict[int, str] = {}
        for column in columns:
            _find_bad_cells(table.column(column.name), column, errors)
        if errors:
            kept = np.array([row for row in range(len(numbers)) if row not in errors], np.int64)
            table, rest = table.take(pa.array(kept)), numbers[kept]
        else:
            rest = numbers
        batch = {each.name: _array(table.column(each.name), each) for each in columns}
        rejects = [RejectedRow(int(numbers[at]), errors[at]) for at in sorted(errors)]
        return UnitRows(batch, rest, tuple(rejects))

    def encode(self, batch: Batch) -> bytes:
        """One row group; the same bytes for the same columns and version of pyarrow."""
        columns = {name: _arrow(name, array) for name, array in batch.items()}
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(columns), sink, compression="snappy", row_group_size=2**30)
        return bytes(sink.getvalue().to_pybytes())

    def row_numbers(self, data: bytes) -> Array:
        """The column ROW of a file that was written here."""
        table = pq.read_table(pa.BufferReader(data), columns=[ROW])
        numbers: Array = table.column(ROW).to_numpy()
        return numbers


def _open(source: InputReader) -> Any:
    try:
        return pq.ParquetFile(source.open())
    except (pa.ArrowException, OSError) as error:
        text = f"{source.url} is not a Parquet file: {_first_line(error)}"
        raise UsageError(text) from error


def _group_ranges(file: Any, unit_rows: int) -> tuple[UnitRange, ...]:
    """Row groups one after the other, joined up to `unit_rows` rows."""
    counts = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
    ranges: list[UnitRange] = []
    start = first_row = rows = 0
    for group, count in enumerate(counts):
        if group > start and rows + count > unit_rows:
            ranges.append(UnitRange(start, group, first_row, rows))
            start, first_row, rows = group, first_row + rows, 0
        rows += count
    if rows:
        ranges.append(UnitRange(start, len(counts), first_row, rows))
    return tuple(ranges)


def _column(file: Any, field: Any, url: str) -> TableColumn:
    kind = field.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return TableColumn(field.name, TEXT)
    if pa.types.is_fixed_size_list(kind):
        return TableColumn(field.name, _dtype(kind.value_type, field, url), (kind.list_size,))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        length = _first_length(file, field.name)
        return TableColumn(field.name, _dtype(kind.value_type, field, url), (length,))
    return TableColumn(field.name, _dtype(kind, field, url))


def _dtype(kind: Any, field: Any, url: str) -> str:
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not is_number:
        raise UsageError(
            f"{url}: column {field.name!r} has the type {field.type}, which is not read",
            hint="numbers, booleans, text and lists of numbers are read",
        )
    return str(np.dtype(kind.to_pandas_dtype()).str)


def _first_length(file: Any, name: str) -> int:
    for batch in file.iter_batches(batch_size=1, columns=[name]):
        value = batch.column(0)[0].as_py()
        if value is not None:
            return len(value)
    return 0


def _find_bad_cells(chunked: Any, column: TableColumn, errors: dict[int, str]) -> None:
    if column.shape:
        for row, cell in enumerate(chunked.to_pylist()):
            if cell is None or len(cell) != column.shape[0] or None in cell:
                given = "null" if cell is None or None in cell else f"{len(cell)} values"
                errors.setdefault(row, f"{column.name}: it has {given}, not {column.shape[0]}")
    elif chunked.null_count and (column.kind == TEXT or np.dtype(column.kind).kind != "f"):
        for place in np.flatnonzero(chunked.is_null().to_numpy()):
            errors.setdefault(int(place), f"{column.name}: it is null")


def _array(chunked: Any, column: TableColumn) -> Array:
    if column.kind == TEXT:
        return np.array(chunked.to_pylist(), np.str_)
    dtype = np.dtype(column.kind)
    if column.shape:
        values = np.array(chunked.to_pylist(), dtype)
        return values.reshape(len(values), *column.shape)
    found: Array = chunked.to_numpy().astype(dtype, copy=False)
    return found


def _arrow(name: str, array: Array) -> Any:
    if array.dtype.kind not in "biufUS":
        raise JobFailedError(f"{name!r} of datatype {array.dtype} cannot be written as parquet")
    if array.dtype.kind in "US":
        return pa.array(array.tolist())
    if array.ndim == 1:
        return pa.array(array)
    cells = np.ascontiguousarray(array.reshape(len(array), -1))
    return pa.FixedSizeListArray.from_arrays(pa.array(cells.ravel()), cells.shape[1])


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
