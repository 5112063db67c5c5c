"""What every format of files answers: its columns, its units, the rows of a unit, and its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tpuctl.errors import JobFailedError
from tpuctl.serving.batch.formats.input_reader import InputReader
from tpuctl.serving.datatypes import Array, Batch

ROW = "row"
"""The column of every output: the number of the row in its input object, from 0."""
NUMBER, TEXT, BOOL = "number", "text", "bool"
"""Kinds of columns whose files do not say a datatype: float64, str and bool in a batch."""


class TableColumn(NamedTuple):
    """A column of the inputs: its name, its kind or datatype, and the shape of one cell."""

    name: str
    kind: str
    shape: tuple[int, ...] = ()

    def describe(self) -> str:
        """Such as `pixels <f4 [64]`."""
        return f"{self.name} {self.kind}" + (f" {list(self.shape)}" if self.shape else "")


class UnitRange(NamedTuple):
    """A part of an input object: its rows, row groups or bytes from `start` to before `end`."""

    start: int
    end: int
    first_row: int
    """The number of its first row in the object."""
    rows: int | None
    """How many rows it has; None where only reading it tells."""


class RejectedRow(NamedTuple):
    """A row of an input object that could not be read or predicted, and why."""

    row: int
    error: str


@dataclass(frozen=True)
class InputSurvey:
    """The columns of an input object, and the units that it is cut into."""

    columns: tuple[TableColumn, ...]
    ranges: tuple[UnitRange, ...]


@dataclass(frozen=True)
class UnitRows:
    """The rows of a unit, their numbers in the input object, and those that cannot be read."""

    batch: Batch
    numbers: Array
    rejects: tuple[RejectedRow, ...] = ()

    @property
    def count(self) -> int:
        """How many rows the unit has, rejected ones included."""
        return len(self.numbers) + len(self.rejects)


class FileFormat(Protocol):
    """One format of files. Raises the errors of tpuctl.errors and no others."""

    def survey(self, source: InputReader, unit_rows: int) -> InputSurvey:
        """The columns and the units of an object; UsageError when it is not of this format."""

    def read(
        self, source: InputReader, unit: UnitRange, columns: Sequence[TableColumn]
    ) -> UnitRows:
        """The rows of a unit, with the columns that all inputs have."""

    def encode(self, batch: Batch) -> bytes:
        """The bytes of a file: the same for the same columns, at any time and on any machine."""

    def row_numbers(self, data: bytes) -> Array:
        """The column ROW of a file that was written by `encode`."""


def row_ranges(rows: int, unit_rows: int) -> tuple[UnitRange, ...]:
    """Ranges of at most `unit_rows` rows each that cover all rows once."""
    return tuple(
        UnitRange(start, min(start + unit_rows, rows), start, min(unit_rows, rows - start))
        for start in range(0, rows, unit_rows)
    )


def flat_columns(batch: Batch, kind: str) -> list[tuple[str, Array]]:
    """Columns of one value a row for a format without arrays: `x` [n, 2] becomes x_0 and x_1."""
    flat: list[tuple[str, Array]] = []
    for name, array in batch.items():
        if array.dtype.kind not in "biufUS":
            raise JobFailedError(f"{name!r} of datatype {array.dtype} cannot be written as {kind}")
        if array.ndim == 1:
            flat.append((name, array))
            continue
        cells = array.reshape(len(array), -1)
        flat += [(f"{name}_{index}", cells[:, index]) for index in range(cells.shape[1])]
    return flat
