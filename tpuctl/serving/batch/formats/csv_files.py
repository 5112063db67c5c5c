"""Comma-separated values with a header line; quotes as RFC 4180 has them, line ends in them too."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

import numpy as np

from tpuctl.errors import UsageError
from tpuctl.serving.batch.formats.file_format import (
    NUMBER,
    ROW,
    TEXT,
    InputSurvey,
    RejectedRow,
    TableColumn,
    UnitRange,
    UnitRows,
    flat_columns,
)
from tpuctl.serving.batch.formats.input_reader import InputReader
from tpuctl.serving.batch.formats.record_ends import RecordScan, count_records, record_ranges
from tpuctl.serving.datatypes import Array, Batch

SAMPLE_BYTES = 64 * 1024
"""Of the beginning of a file: its records say which columns are numbers."""
NUMBER_SHARE = 0.9
"""Of the cells of a column of numbers, empty ones included, so many are; the others are errors."""
MARK = b"\xef\xbb\xbf"
"""What some programs write before UTF-8."""
QUOTES_HINT = "put a field with quotes or line ends in quotes, and double the quotes within"


class CsvFiles:
    """.csv files: columns of numbers are float64, an empty cell is NaN; all others are text."""

    def survey(self, source: InputReader, unit_rows: int) -> InputSurvey:
        """The columns and the units of an object; UsageError when it has no header."""
        sample = source.read(0, SAMPLE_BYTES)
        ends = RecordScan(is_quoted=True).ends(sample)
        if len(sample) == source.size_bytes:
            ends = np.append(ends, len(sample))
        if not len(ends):
            raise UsageError(f"{source.url}: its first record does not end within 64 KiB")
        records = _parse(sample[: int(ends[-1])], source.url)
        names = records[0] if records else []
        if not names or len(set(names)) < len(names) or not all(names):
            raise UsageError(
                f"{source.url} has no header with a name of its own for each column",
                hint="the first line of a csv file names its columns",
            )
        rows = [record for record in records[1:] if len(record) == len(names)]
        columns = tuple(
            TableColumn(name, _kind([row[index] for row in rows]))
            for index, name in enumerate(names)
        )
        ranges = record_ranges(source, unit_rows, is_quoted=True, header_records=1)
        return InputSurvey(columns, tuple(ranges))

    def read(
        self, source: InputReader, unit: UnitRange, columns: Sequence[TableColumn]
    ) -> UnitRows:
        """The rows of a unit; one with too few fields, or without a number, is rejected."""
        data = source.read(unit.start, unit.end)
        records = _parse(data, source.url)
        counted = count_records(data, is_quoted=True)
        if len(records) != counted:
            raise UsageError(
                f"{source.url}: bytes {unit.start} to {unit.end} have {len(records)} records by"
                f" their line ends, and {counted} by their quotes",
                hint=QUOTES_HINT,
            )
        if unit.start == 0:
            records = records[1:]
        cells, numbers, rejects = _whole_records(records, unit.first_row, len(columns))
        return _typed_rows(cells, numbers, rejects, columns)

    def encode(self, batch: Batch) -> bytes:
        """A header and a line for each row; numbers as short as they read back the same."""
        flat = flat_columns(batch, "csv")
        written = io.StringIO(newline="")
        writer = csv.writer(written, lineterminator="\n")
        writer.writerow([name for name, _ in flat])
        writer.writerows(zip(*(_texts(array) for _, array in flat), strict=True))
        return written.getvalue().encode()

    def row_numbers(self, data: bytes) -> Array:
        """The column ROW of a file that was written here."""
        records = list(csv.reader(io.StringIO(data.decode(), newline="")))
        place = records[0].index(ROW)
        return np.array([int(record[place]) for record in records[1:]], np.int64)


def _parse(data: bytes, url: str) -> list[list[str]]:
    """The records of some bytes; what is not UTF-8 becomes surrogates, which reject a row later."""
    text = data.removeprefix(MARK).decode("utf-8", "surrogateescape")
    try:
        return list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise UsageError(f"{url} cannot be read as csv: {error}", hint=QUOTES_HINT) from error


def _whole_records(
    records: Iterable[list[str]], first_row: int, width: int
) -> tuple[list[list[str]], list[int], list[RejectedRow]]:
    """Records of that many fields and their numbers; an empty line is not a row, but is counted."""
    cells, numbers, rejects = [], [], []
    for row, record in enumerate(records, first_row):
        if len(record) == width:
            cells.append(record)
            numbers.append(row)
        elif record:
            rejects.append(RejectedRow(row, f"it has {len(record)} fields, not {width}"))
    return cells, numbers, rejects


def _typed_rows(
    cells: list[list[str]],
    numbers: list[int],
    rejects: list[RejectedRow],
    columns: Sequence[TableColumn],
) -> UnitRows:
    errors: dict[int, str] = {}
    batch: Batch = {}
    for index, column in enumerate(columns):
        values = [record[index] for record in cells]
        convert = _numbers if column.kind == NUMBER else _text_values
        batch[column.name] = convert(column.name, values, errors)
    if errors:
        kept = [place for place in range(len(cells)) if place not in errors]
        batch = {name: array[kept] for name, array in batch.items()}
        rejects = [*rejects, *(RejectedRow(numbers[at], text) for at, text in errors.items())]
        numbers = [numbers[place] for place in kept]
    return UnitRows(batch, np.array(numbers, np.int64), tuple(sorted(rejects)))


def _numbers(name: str, values: list[str], errors: dict[int, str]) -> Array:
    try:
        return np.array(values, np.float64) if values else np.empty(0)
    except ValueError:
        found = np.full(len(values), np.nan)
        for place, value in enumerate(values):
            if _is_number(value):
                found[place] = float(value or "nan")
            else:
                errors.setdefault(place, f"{name}: {value[:60]!r} is not a number")
        return found


def _text_values(name: str, values: list[str], errors: dict[int, str]) -> Array:
    for place, value in enumerate(values):
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            errors.setdefault(place, f"{name}: it is not UTF-8")
    return np.array(values, np.str_)


def _kind(cells: list[str]) -> str:
    """Of a column, by its cells of the sample; a bad cell rejects its row, and no whole column."""
    numbers = sum(map(_is_number, cells))
    return NUMBER if numbers >= NUMBER_SHARE * len(cells) else TEXT


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True


def _texts(array: Array) -> list[str]:
    if array.dtype.kind == "S":
        return [value.decode("utf-8", "replace") for value in array.tolist()]
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        return [str(value) for value in array]  # tolist would write 0.1 as 0.10000000149011612
    return [str(value) for value in array.tolist()]
