"""A JSON object a line: numbers, texts, booleans, and lists of one length in every line."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tpuctl.errors import JobFailedError, UsageError
from tpuctl.serving.batch.formats.file_format import (
    BOOL,
    NUMBER,
    ROW,
    TEXT,
    InputSurvey,
    RejectedRow,
    TableColumn,
    UnitRange,
    UnitRows,
)
from tpuctl.serving.batch.formats.input_reader import InputReader
from tpuctl.serving.batch.formats.record_ends import RecordScan, record_ranges
from tpuctl.serving.datatypes import Array, Batch

SAMPLE_BYTES = 64 * 1024
_KINDS = {"i": NUMBER, "u": NUMBER, "f": NUMBER, "b": BOOL, "U": TEXT}
_DTYPES: Mapping[str, Any] = {NUMBER: np.float64, BOOL: np.bool_, TEXT: np.str_}


class JsonLines:
    """.jsonl files: numbers are float64; null for a number is NaN."""

    def survey(self, source: InputReader, unit_rows: int) -> InputSurvey:
        """The columns and the units of an object, its columns by its first records."""
        sample = source.read(0, SAMPLE_BYTES)
        ends = RecordScan(is_quoted=False).ends(sample)
        is_whole = len(sample) == source.size_bytes
        end = len(sample) if is_whole or not len(ends) else int(ends[-1])
        columns: dict[str, TableColumn] = {}
        for line in filter(None, map(bytes.strip, sample[:end].split(b"\n"))):
            for name, value in _object(line).items():
                found = _column(name, value)
                if name == ROW or found is None:
                    continue
                columns.setdefault(name, found)
        if not columns and source.size_bytes:
            raise UsageError(
                f"{source.url} does not begin with JSON objects, one a line",
                hint='such as: {"x": [0.5, 1.0], "name": "first"}',
            )
        ranges = record_ranges(source, unit_rows, is_quoted=False)
        return InputSurvey(tuple(sorted(columns.values())), tuple(ranges))

    def read(
        self, source: InputReader, unit: UnitRange, columns: Sequence[TableColumn]
    ) -> UnitRows:
        """The rows of a unit; a line that is not an object with these columns is rejected."""
        cells: dict[str, list[Any]] = {column.name: [] for column in columns}
        numbers: list[int] = []
        rejects: list[RejectedRow] = []
        lines = source.read(unit.start, unit.end).split(b"\n")
        for row, line in enumerate(lines, unit.first_row):
            if not line.strip():
                continue
            try:
                values = _row(line, columns)
            except ValueError as error:
                rejects.append(RejectedRow(row, str(error)))
                continue
            numbers.append(row)
            for name, value in values.items():
                cells[name].append(value)
        batch = {
            column.name: np.array(cells[column.name], _DTYPES[column.kind]).reshape(
                len(numbers), *column.shape
            )
            for column in columns
        }
        return UnitRows(batch, np.array(numbers, np.int64), tuple(rejects))

    def encode(self, batch: Batch) -> bytes:
        """A line for each row; NaN and infinity, which JSON lacks, become null."""
        columns = [_values(name, array) for name, array in batch.items()]
        lines = [
            json.dumps(dict(zip(batch, values, strict=True)), ensure_ascii=False)
            for values in zip(*columns, strict=True)
        ]
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")

    def row_numbers(self, data: bytes) -> Array:
        """The column ROW of a file that was written here."""
        return np.array([json.loads(line)[ROW] for line in data.splitlines()], np.int64)


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _row(line: bytes, columns: Sequence[TableColumn]) -> dict[str, Array]:
    """The cells of a line; raises ValueError with what is wrong with it."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return {column.name: _cell(found, column) for column in columns}


def _cell(found: Mapping[str, Any], column: TableColumn) -> Array:
    name = column.name
    if name not in found:
        raise ValueError(f"it has no {name!r}")
    value = found[name]
    if value is None and column == (name, NUMBER, ()):
        return np.array(math.nan)
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name}: its lists differ in length") from None
    kind = _KINDS.get(array.dtype.kind) if array.size else column.kind
    if kind != column.kind or array.shape != column.shape:
        given = f"{kind or 'no number or text'} {list(array.shape) or ''}".strip()
        raise ValueError(f"{name}: it is {given}, not {column.describe().partition(' ')[2]}")
    return array


def _column(name: str, value: Any) -> TableColumn | None:
    """The column that a value is of; None where it does not tell, as null does."""
    try:
        array = np.asarray(value)
    except ValueError:
        return None
    kind = _KINDS.get(array.dtype.kind)
    return None if kind is None or not array.size else TableColumn(name, kind, array.shape)


def _values(name: str, array: Array) -> list[Any]:
    if array.dtype.kind not in "biufUS":
        raise JobFailedError(f"{name!r} of datatype {array.dtype} cannot be written as jsonl")
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8", "replace")
    if array.dtype.kind != "f":
        return list(array.tolist())
    if array.dtype.itemsize < 8:  # the shortest text that reads back as the same float32
        array = np.array([float(str(value)) for value in array.ravel()]).reshape(array.shape)
    found = list(array.tolist())
    return found if np.isfinite(array).all() else [_without_nan(value) for value in found]


def _without_nan(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nan(each) for each in value]
    return value if math.isfinite(value) else None
