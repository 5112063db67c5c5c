"""Where the records of a text file end: at line ends, in csv not at those within quotes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from tpuctl.serving.batch.formats.file_format import UnitRange
from tpuctl.serving.batch.formats.input_reader import InputReader
from tpuctl.serving.datatypes import Array

LINE_END, QUOTE = 10, 34
ONE_UNIT_BYTES = 64 * 1024
"""A file of this size or less is one unit: its records are counted when it is read."""


class RecordScan:
    """Finds the ends of records in blocks of bytes, one after the other."""

    def __init__(self, *, is_quoted: bool) -> None:
        """`is_quoted`: a line end between two quotes ends no record (RFC 4180)."""
        self._is_quoted = is_quoted
        self._is_open = False
        self._place = 0
        self._last_end = 0

    @property
    def is_open(self) -> bool:
        """Whether a quote is not closed."""
        return self._is_open

    @property
    def has_rest(self) -> bool:
        """Whether bytes follow the last line end: a record without one."""
        return self._place > self._last_end

    @property
    def place(self) -> int:
        """How many bytes were seen."""
        return self._place

    def ends(self, block: bytes) -> Array:
        """The offsets right after the records that end in the next block."""
        values = np.frombuffer(block, np.uint8)
        ends = np.flatnonzero(values == LINE_END)
        if self._is_quoted and (self._is_open or QUOTE in block):
            quotes = np.flatnonzero(values == QUOTE)
            before = np.searchsorted(quotes, ends) + self._is_open
            ends = ends[before % 2 == 0]
            self._is_open = bool((len(quotes) + self._is_open) % 2)
        found: Array = ends + self._place + 1
        self._place += len(block)
        self._last_end = int(found[-1]) if len(found) else self._last_end
        return found


def count_records(data: bytes, *, is_quoted: bool) -> int:
    """How many records some bytes hold that begin with one."""
    scan = RecordScan(is_quoted=is_quoted)
    return len(scan.ends(data)) + scan.has_rest


def record_ranges(
    source: InputReader, unit_rows: int, *, is_quoted: bool, header_records: int = 0
) -> Iterator[UnitRange]:
    """Ranges of bytes of at most `unit_rows` records each; the first has the header besides."""
    if source.size_bytes <= ONE_UNIT_BYTES:
        if source.size_bytes:
            yield UnitRange(0, source.size_bytes, 0, None)
        return
    scan = RecordScan(is_quoted=is_quoted)
    yield from _cut(source.blocks(), unit_rows, scan, header_records)


def _cut(
    blocks: Iterable[bytes], unit_rows: int, scan: RecordScan, header_records: int
) -> Iterator[UnitRange]:
    start, first_row, seen = 0, 0, -header_records
    for block in blocks:
        ends = scan.ends(block)
        while first_row + unit_rows <= seen + len(ends):
            end = int(ends[first_row + unit_rows - seen - 1])
            yield UnitRange(start, end, first_row, unit_rows)
            start, first_row = end, first_row + unit_rows
        seen += len(ends)
    if scan.place > start:
        yield UnitRange(start, scan.place, first_row, seen + scan.has_rest - first_row)
