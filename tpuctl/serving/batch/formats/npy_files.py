"""Arrays of numpy: .npy files of one array, and .npz archives of several with as many rows each.

No pickle is read: an array of Python objects is refused.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from tpuctl.errors import JobFailedError, UsageError
from tpuctl.serving.batch.formats.file_format import (
    ROW,
    InputSurvey,
    TableColumn,
    UnitRange,
    UnitRows,
    row_ranges,
)
from tpuctl.serving.batch.formats.input_reader import InputReader
from tpuctl.serving.datatypes import Array, Batch

NPY_COLUMN = "x"
"""The name in a batch of the one array of an .npy file."""
LONGEST_HEADER = 64 * 1024
_HEADER = re.compile(
    r"\{'descr': '(?P<descr>[^'\\]+)', 'fortran_order': (?P<fortran>True|False),"
    r" 'shape': \((?P<shape>[0-9, ]*)\), *\}\s*"
)
_LOCAL_HEADER = struct.Struct("<4s22xHH")
"""What stands before a file in an archive: its mark, and the sizes of name and extra field.

https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, section 4.3.7
"""
_IS_ENCRYPTED = 1
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)
"""Of every file in an archive: the same columns are the same bytes at any time."""


class ArrayHeader(NamedTuple):
    """What stands before the values of an array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_fortran: bool


class NpyFiles:
    """.npy files: the batch has the array as `x`; outputs of several columns are .npz."""

    def survey(self, source: InputReader, unit_rows: int) -> InputSurvey:
        """The columns and the units of an object; UsageError when it is not an .npy file."""
        header = read_header(source.open(), source.url)
        return InputSurvey((_column(NPY_COLUMN, header),), row_ranges(header.shape[0], unit_rows))

    def read(
        self, source: InputReader, unit: UnitRange, columns: Sequence[TableColumn]
    ) -> UnitRows:
        """The rows of a unit."""
        file = source.open()
        array = read_rows(file, read_header(file, source.url), unit, source.url)
        return UnitRows({columns[0].name: array}, np.arange(unit.start, unit.end))

    def encode(self, batch: Batch) -> bytes:
        """Outputs have several columns, so they are an archive."""
        return NpzFiles().encode(batch)

    def row_numbers(self, data: bytes) -> Array:
        """The column ROW of an archive."""
        return NpzFiles().row_numbers(data)


class NpzFiles:
    """.npz archives; every array in one has the same number of rows."""

    def survey(self, source: InputReader, unit_rows: int) -> InputSurvey:
        """The columns and the units of an object; UsageError when it is not an .npz archive."""
        headers = {}
        with _open_archive(source) as archive:
            for name in sorted(archive.namelist()):
                with _open_member(archive, name, source) as file:
                    headers[name.removesuffix(".npy")] = read_header(file, source.url)
        rows = {header.shape[0] for header in headers.values()}
        if len(rows) != 1:
            text = ", ".join(f"{name} has {each.shape[0]}" for name, each in headers.items())
            raise UsageError(f"the arrays of {source.url} differ in rows: {text or 'it has none'}")
        columns = tuple(_column(name, header) for name, header in headers.items())
        return InputSurvey(columns, row_ranges(rows.pop(), unit_rows))

    def read(
        self, source: InputReader, unit: UnitRange, columns: Sequence[TableColumn]
    ) -> UnitRows:
        """The rows of a unit; of an array that is not compressed, no others are read."""
        batch = {}
        with _open_archive(source) as archive:
            for column in columns:
                with _open_member(archive, f"{column.name}.npy", source) as file:
                    header = read_header(file, source.url)
                    batch[column.name] = read_rows(file, header, unit, source.url)
        return UnitRows(batch, np.arange(unit.start, unit.end))

    def encode(self, batch: Batch) -> bytes:
        """An archive without compression and without dates."""
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as archive:
            for name, array in batch.items():
                if array.dtype.hasobject:
                    raise JobFailedError(f"{name!r} has Python objects, which npz cannot hold")
                values = io.BytesIO()
                np.lib.format.write_array(values, np.ascontiguousarray(array), allow_pickle=False)
                archive.writestr(zipfile.ZipInfo(f"{name}.npy", _FIRST_DATE), values.getbuffer())
        return written.getvalue()

    def row_numbers(self, data: bytes) -> Array:
        """The column ROW of an archive."""
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            file = io.BytesIO(archive.read(f"{ROW}.npy"))
        header = read_header(file, "the output")
        rows = header.shape[0]
        return read_rows(file, header, UnitRange(0, rows, 0, rows), "the output")


def read_header(file: BinaryIO, url: str) -> ArrayHeader:
    """The header of an array; the file then stands at its values. Raises UsageError.

    It is parsed here, not by numpy: that asks Python's compiler, which in Python 3.11 fails now and
    then when several threads do. https://github.com/python/cpython/issues/106905
    https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
    """
    try:
        start = file.read(8)
        width = {b"\x01": 2, b"\x02": 4, b"\x03": 4}.get(start[6:7], 0)
        size = int.from_bytes(file.read(width), "little")
        text = file.read(min(size, LONGEST_HEADER)).decode()
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise UsageError(f"{url} cannot be read as an array: {_first_line(error)}") from error
    if start[:6] != b"\x93NUMPY" or not width:
        raise UsageError(f"{url} cannot be read as an array: it does not begin as one")
    return _parse_header(text, url)


def _parse_header(text: str, url: str) -> ArrayHeader:
    found = _HEADER.fullmatch(text)
    if found is None:
        raise UsageError(
            f"{url} cannot be read as an array: its header is {text.strip()[:80]!r}",
            hint="arrays of numbers or text are read; structured values are not",
        )
    shape = tuple(int(size) for size in found["shape"].split(",") if size.strip())
    try:
        dtype = np.dtype(found["descr"])
    except TypeError as error:
        raise UsageError(f"{url} has the datatype {found['descr']!r}, not numpy's") from error
    if dtype.hasobject:
        raise UsageError(
            f"{url} has Python objects, which are not read: they could run a program",
            hint="save numbers or text: np.savez(path, x=x.astype(np.float32))",
        )
    if not shape:
        raise UsageError(f"{url} has one value; it needs arrays whose first axis counts the rows")
    return ArrayHeader(dtype, shape, found["fortran"] == "True")


def read_rows(file: BinaryIO, header: ArrayHeader, unit: UnitRange, url: str) -> Array:
    """Some rows of the array whose values the file stands at. Raises UsageError."""
    row_bytes = header.dtype.itemsize * int(np.prod(header.shape[1:], dtype=np.int64))
    if header.is_fortran and len(header.shape) > 1:
        data = _read_exactly(file, row_bytes * header.shape[0], url)
        whole = np.frombuffer(data, header.dtype).reshape(header.shape[::-1]).T
        return np.ascontiguousarray(whole[unit.start : unit.end])
    file.seek(row_bytes * unit.start, io.SEEK_CUR)
    data = _read_exactly(file, row_bytes * (unit.end - unit.start), url)
    return np.frombuffer(data, header.dtype).reshape(unit.end - unit.start, *header.shape[1:])


def _read_exactly(file: BinaryIO, size_bytes: int, url: str) -> bytes:
    try:
        data = file.read(size_bytes)
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        raise UsageError(f"{url} cannot be read: {_first_line(error)}") from error
    if len(data) < size_bytes:
        raise UsageError(f"{url} is cut off: {size_bytes - len(data)} bytes are missing")
    return data


def _open_archive(source: InputReader) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(source.open())
    except (zipfile.BadZipFile, ValueError, OSError) as error:
        text = f"{source.url} is not an .npz archive: {_first_line(error)}"
        raise UsageError(text) from error


def _open_member(archive: zipfile.ZipFile, name: str, source: InputReader) -> BinaryIO:
    try:
        member = archive.getinfo(name)
        if member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & _IS_ENCRYPTED:
            return _open_stored(member, source)
        return archive.open(member)  # type: ignore[return-value]
    except (KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError) as error:
        text = f"{source.url}: {name} cannot be read: {_first_line(error)}"
        raise UsageError(text) from error


def _open_stored(member: zipfile.ZipInfo, source: InputReader) -> BinaryIO:
    """The file of a member that is not compressed, to seek in; raises BadZipFile.

    That of zipfile reads everything before the place that it is to seek.
    """
    start = member.header_offset + _LOCAL_HEADER.size
    header = source.read(member.header_offset, start)
    mark, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(header.ljust(_LOCAL_HEADER.size, b"\0"))
    if mark != b"PK\x03\x04":
        raise zipfile.BadZipFile("it is not where the archive's directory says")
    start += name_bytes + extra_bytes
    return source.open_part(start, start + member.file_size)


def _column(name: str, header: ArrayHeader) -> TableColumn:
    return TableColumn(name, header.dtype.str, header.shape[1:])


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
