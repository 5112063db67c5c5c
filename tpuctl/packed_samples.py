"""Packs the samples of one worker into few bytes, and back. Python 3.8.

A packed document is zlib's, of JSON: {"schema": 1, "times_ms": [...], "columns": {NAME: {"unit":
U, "deltas": [...]}}}. A value is its delta and all before it, times the unit; null is a value that
is missing. Numbers that a program prints are {"values": [...]}, rounded to six digits.
"""

from __future__ import annotations

import json
import zlib
from itertools import accumulate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    Sample = dict[str, Any]

SCHEMA = 1
UNITS = {
    "_percent": 0.1, "_bytes": 4096.0, "_bytes_per_s": 1024.0, "_us": 1.0, "_s": 0.1,
    "_1m": 0.01, "_size": 1.0, "step": 1.0, "held": 1.0,
}  # fmt: skip
"""End of a name -> what its values are rounded to."""
DIGITS = 6
MALFORMED = (
    ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip
LARGEST = 1e300
"""The largest number of a program: the sum of all that fit into a document is finite."""
LARGEST_DELTA = 1e15
LATEST_S = 253402300799
"""The last second of the year 9999."""
LARGEST_BYTES = 16 * 1024 * 1024
"""The largest unpacked document: a larger one was not packed here."""


class PackedSamplesError(ValueError):
    """What is to be unpacked is not a document of samples."""


def pack(samples: Sequence[Sample]) -> bytes:
    """Return samples {"time_s": T, "values": {NAME: NUMBER}}, in the order of time, packed."""
    names = sorted({name for sample in samples for name in sample["values"]})
    document = {
        "schema": SCHEMA,
        "times_ms": list(deltas(round(1000 * sample["time_s"]) for sample in samples)),
        "columns": {name: column(name, samples) for name in names},
    }
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 9)


def column(name: str, samples: Sequence[Sample]) -> dict[str, Any]:
    """Return the values of one name, as the document has them."""
    values = [sample["values"].get(name) for sample in samples]
    unit = unit_of(name)
    if unit is None:
        kept = (None if each is None or abs(each) > LARGEST else each for each in values)
        return {"values": [None if each is None else rounded(each) for each in kept]}
    counts = (None if each is None else round(each / unit) for each in values)
    return {"unit": unit, "deltas": list(deltas(counts))}


def unit_of(name: str) -> float | None:
    """Return what a name's values are rounded to; None for a number of the program's own."""
    bare = name.partition("/")[0]
    if bare.startswith("program.") and bare not in ("program.step", "program.memory_bytes"):
        return None
    return next((unit for end, unit in UNITS.items() if bare.endswith(end)), None)


def rounded(value: float) -> float:
    """Return a number with DIGITS significant digits."""
    return float(f"{value:.{DIGITS}g}")


def deltas(counts: Iterable[int | None]) -> Iterator[int | None]:
    """Yield how much each number is above the one before it; a missing one stays missing."""
    before = 0
    for count in counts:
        if count is None:
            yield None
        else:
            yield count - before
            before = count


def unpack(data: bytes) -> list[Sample]:
    """Return the samples of a packed document. Raises PackedSamplesError."""
    try:
        document = json.loads(decompressed(data), parse_constant=refuse_constant)
        if document["schema"] != SCHEMA:
            raise PackedSamplesError(f"its schema is {document['schema']}")
        times = [count / 1000 for count in sums(document["times_ms"]) if count is not None]
        names = tuple(map(str, document["columns"]))
        columns = [values(each) for each in document["columns"].values()]
    except (zlib.error, *MALFORMED) as error:
        raise PackedSamplesError(str(error) or type(error).__name__) from error
    if times and not 0 <= min(times) <= max(times) <= LATEST_S:
        raise PackedSamplesError("a time is out of range")
    if any(len(each) != len(times) for each in columns):
        raise PackedSamplesError("a column has another length than the times")
    rows = zip(*columns, strict=True) if columns else ([] for _ in times)
    return [
        {"time_s": time_s, "values": without_missing(dict(zip(names, row, strict=True)))}
        for time_s, row in zip(times, rows, strict=True)
    ]


def without_missing(found: dict[str, float | None]) -> dict[str, float]:
    """Return the values that are there."""
    if None not in found.values():
        return found  # type: ignore[return-value]
    return {name: value for name, value in found.items() if value is not None}


def decompressed(data: bytes) -> bytes:
    """Return the JSON of a packed document, up to LARGEST_BYTES. Raises zlib.error, ValueError."""
    inflating = zlib.decompressobj()
    text = inflating.decompress(data, LARGEST_BYTES)
    if not inflating.eof:
        raise PackedSamplesError("it is cut or too large")
    return text


def refuse_constant(text: str) -> float:
    """Refuse NaN and infinities, which JSON does not have."""
    raise PackedSamplesError(f"{text} is not finite")


def values(column: Mapping[str, Any]) -> list[float | None]:
    """Return the values of a column. Raises KeyError, TypeError, ValueError."""
    if "values" in column:
        return checked(column["values"], LARGEST)
    unit = column["unit"]
    if unit not in UNITS.values():
        raise ValueError("its unit is not known")
    counts = sums(column["deltas"])
    if unit >= 1:
        return [None if count is None else count * unit for count in counts]
    parts = round(1 / unit)  # so that 3 of a tenth are 0.3
    return [None if count is None else count / parts for count in counts]


def checked(numbers: Any, largest: float) -> list[float | None]:
    """Return a list of numbers up to `largest` and None; raises TypeError, PackedSamplesError."""
    if not isinstance(numbers, list) or not set(map(type, numbers)) <= {int, float, type(None)}:
        raise TypeError("a value is not a number")
    known = numbers if None not in numbers else [each for each in numbers if each is not None]
    if known and not -largest <= min(known) <= max(known) <= largest:
        raise PackedSamplesError("a number is out of range")
    return numbers


def sums(differences: Any) -> list[float | None]:
    """Return each number from the differences. Raises TypeError."""
    if None not in checked(differences, LARGEST_DELTA):
        return list(accumulate(differences))
    total: float = 0
    found: list[float | None] = []
    for difference in differences:
        total += difference or 0
        found.append(None if difference is None else total)
    return found
