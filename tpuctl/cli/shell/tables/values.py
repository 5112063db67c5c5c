"""The values of a list: what programs read, and what people see in their place."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache, partial
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from tpuctl.byte_size import size_text

T = TypeVar("T")
Columns = Mapping[str, Callable[[T], Any]]
_TWO = tuple(f"{number:02}" for number in range(60))


@dataclass(frozen=True, slots=True)
class PointInTime:
    """A point in time: RFC 3339 for programs, an age for people."""

    epoch_s: float

    def __str__(self) -> str:
        day, second = divmod(int(self.epoch_s // 1), 86400)
        hour, second = divmod(second, 3600)
        return f"{_date(day)}T{_TWO[hour]}:{_TWO[second // 60]}:{_TWO[second % 60]}Z"


@dataclass(frozen=True, slots=True)
class Usd:
    """US dollars: a number for programs; for people two digits, or four below 0.10."""

    amount: float

    def __str__(self) -> str:
        digits = 4 if 0 < self.amount < 0.1 else 2
        return f"{self.amount:.{digits}f}"


@dataclass(frozen=True, slots=True)
class Size:
    """A number of bytes: a number for programs, `1.2 KiB` for people."""

    size_bytes: int

    def __str__(self) -> str:
        return size_text(self.size_bytes)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number for programs, or the ends of a range; for people a text with digits and unit."""

    number: float | tuple[float | None, ...]
    text: str

    def __str__(self) -> str:
        return self.text


def moment_of(epoch_s: float | None) -> PointInTime | None:
    """The moment at so many seconds since 1970, where that is known."""
    return None if epoch_s is None else PointInTime(epoch_s)


def usd_of(amount: float | None) -> Usd | None:
    """So many US dollars, where that is known."""
    return None if amount is None else Usd(amount)


def size_of(size_bytes: int | None) -> Size | None:
    """So many bytes, where that is known."""
    return None if size_bytes is None else Size(size_bytes)


def attributes(*names: str, **paths: str) -> dict[str, Callable[[Any], Any]]:
    """Columns of attributes, each under its own name, or under the keyword that gives its path."""
    named = {**dict(zip(names, names, strict=True)), **paths}
    return {key: attrgetter(path) for key, path in named.items()}


def entries(*names: str) -> dict[str, Callable[[Any], Any]]:
    """Columns of the entries of a tuple, in its order."""
    return {name: itemgetter(index) for index, name in enumerate(names)}


def moments(*names: str) -> dict[str, Callable[[Any], Any]]:
    """Columns of moments: each the attribute NAME_s in seconds since 1970, which may be None."""
    return {name: partial(_made_of, moment_of, attrgetter(f"{name}_s")) for name in names}


def sizes(*names: str, **paths: str) -> dict[str, Callable[[Any], Any]]:
    """Columns of sizes: each the attribute of its name, in bytes, which may be None."""
    return {
        key: partial(_made_of, size_of, get) for key, get in attributes(*names, **paths).items()
    }


def _made_of(make: Callable[[Any], Any], get: Callable[[Any], Any], item: Any) -> Any:
    return make(get(item))


def values_of(item: T, columns: Columns[T]) -> dict[str, Any]:
    """The value of each column for one item."""
    return {key: get(item) for key, get in columns.items()}


@cache
def _date(day: int) -> str:
    """The date so many days after 1970-01-01."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)).strftime("%Y-%m-%d")


def printable(text: str) -> str:
    """The text on one line, without control characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


CELLS: Mapping[type, Callable[[Any], str]] = {
    str: printable,
    type(None): lambda _: "-",
    Size: lambda value: str(value.size_bytes),
    Quantity: lambda value: (
        " - ".join(map(cell_of, value.number))
        if isinstance(value.number, tuple)
        else cell_of(value.number)
    ),
    bool: lambda value: "yes" if value else "no",
    float: lambda value: f"{value:.12g}",
    list: lambda value: ",".join(map(cell_of, value)),
    tuple: lambda value: ",".join(map(cell_of, value)),
    dict: lambda value: ",".join(f"{key}={cell_of(inner)}" for key, inner in value.items()),
}
"""How a value is written in a table; every other one is its own text."""


def cell_of(value: Any) -> str:
    """The text of a value in a row that a program may read: times whole, bytes, plain numbers."""
    return CELLS.get(type(value), str)(value) or "-"


def seen(value: Any, age_of: Callable[[float], str]) -> str:
    """The text of a value for people: times as ages, sizes with their unit, fractions rounded."""
    if isinstance(value, PointInTime):
        return age_of(value.epoch_s)
    if isinstance(value, (Size, Quantity)):
        return str(value)
    return _rounded(value) if isinstance(value, float) else cell_of(value)


def _rounded(number: float) -> str:
    """The number with four digits, or with all that stand before its point."""
    return f"{number:.4g}" if abs(number) < 1000 else f"{number:.0f}"


PLAIN: Mapping[type, Callable[[Any], Any]] = {
    PointInTime: str,
    Usd: lambda value: round(value.amount, 6),
    Size: lambda value: value.size_bytes,
    Quantity: lambda value: plain(value.number),
    list: lambda value: [plain(inner) for inner in value],
    tuple: lambda value: [plain(inner) for inner in value],
}
"""How JSON has a value; every other one as it is."""


_LEAVES = frozenset({str, int, float, bool, type(None)})


def plain(value: Any) -> Any:
    """The value as JSON has it."""
    if type(value) in _LEAVES:
        return value
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    make = PLAIN.get(type(value))
    return make(value) if make else value
