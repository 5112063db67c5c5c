"""Data to stdout, all else to stderr; the one place that knows tables, JSON and terminals."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache, partial
from itertools import islice
from operator import attrgetter, itemgetter
from shlex import quote
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from tpuctl.cli.shell.options import Format, Shared
from tpuctl.errors import TpuctlError
from tpuctl.models.duration import age as age

if TYPE_CHECKING:
    from rich.table import Table

T = TypeVar("T")
_AT_ONCE = 1000
_PROSE = ("why", "error")
"""Columns that are broken into lines rather than cut, so that the others keep their width."""
_COMMAND = re.compile(
    r"\btpuctl (?=(?:node|queued-resource|qr|job|run|top|explain|sweep|history|supervisor|data|"
    r"checkpoint)\b)"
)
"""Those that a context makes a difference to."""
_TWO = tuple(f"{number:02}" for number in range(60))
Columns = Mapping[str, Callable[[T], Any]]


@dataclass(frozen=True, slots=True)
class Moment:
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


def moment_of(epoch_s: float | None) -> Moment | None:
    """The moment at so many seconds since 1970, where that is known."""
    return None if epoch_s is None else Moment(epoch_s)


def usd_of(amount: float | None) -> Usd | None:
    """So many US dollars, where that is known."""
    return None if amount is None else Usd(amount)


def attributes(*names: str, **paths: str) -> dict[str, Callable[[Any], Any]]:
    """Columns of attributes, each under its own name, or under the keyword that gives its path."""
    named = {**dict(zip(names, names, strict=True)), **paths}
    return {key: attrgetter(path) for key, path in named.items()}


def entries(*names: str) -> dict[str, Callable[[Any], Any]]:
    """Columns of the entries of a tuple, in its order."""
    return {name: itemgetter(index) for index, name in enumerate(names)}


def moments(*names: str) -> dict[str, Callable[[Any], Any]]:
    """Columns of moments: each the attribute NAME_s in seconds since 1970, which may be None."""
    return {name: partial(_moment_in, attrgetter(f"{name}_s")) for name in names}


def _moment_in(seconds: Callable[[Any], float | None], item: Any) -> Moment | None:
    return moment_of(seconds(item))


def values_of(item: T, columns: Columns[T]) -> dict[str, Any]:
    """The value of each column for one item."""
    return {key: get(item) for key, get in columns.items()}


@dataclass
class Output:
    """Prints results and messages as the shared options say."""

    shared: Shared
    out: TextIO
    err: TextIO
    now: Callable[[], float]

    @property
    def format(self) -> str:
        """The format of results."""
        return self.shared.output

    @property
    def is_terminal(self) -> bool:
        """Whether stdout is a terminal."""
        return self.out.isatty()

    @property
    def is_screen(self) -> bool:
        """Whether a person sees tables on a terminal."""
        return self.is_terminal and self.is_table

    @property
    def is_document(self) -> bool:
        """Whether the format is one for programs: JSON or YAML."""
        return self.format in (Format.JSON, Format.YAML)

    @property
    def is_csv(self) -> bool:
        """Whether the format is comma-separated values, with a header."""
        return self.format == Format.CSV

    @property
    def is_table(self) -> bool:
        """Whether the format is a table."""
        return self.format == Format.TABLE

    def items(self, items: Iterable[T], columns: Columns[T], *, title: str = "") -> None:
        """Print a list: one row or one JSON object per item."""
        if self.is_screen:
            from rich.console import Console

            Console(file=self.out, highlight=False).print(self.table(items, columns, title=title))
            return
        listed = list(items)
        if self.is_document:
            self.document([_plain(values_of(item, columns)) for item in listed])
            return
        if self.is_csv:
            self._csv(columns, [_plain(values_of(item, columns)) for item in listed])
            return
        shown = list(columns.values())
        if self.format == Format.NAME:
            self.out.writelines(f"{shown[0](item)}\n" for item in listed)
            return
        # Column by column, and only then row by row: half the time for a thousand rows.
        cells = [[_cell(get(item)) for item in listed] for get in shown]
        self.out.writelines("\t".join(row) + "\n" for row in zip(*cells, strict=True))

    def stream(self, items: Iterable[T], columns: Columns[T], *, title: str = "") -> None:
        """Print a list as `items` does, while it comes, with a thousand rows in memory."""
        rows = iter(items)
        batch = list(islice(rows, _AT_ONCE))
        if self.format == Format.JSON and batch:
            self._stream_json(batch, rows, columns)
            return
        self.items(batch, columns, title=title)
        while batch := list(islice(rows, _AT_ONCE)):
            self.items(batch, columns)

    def _stream_json(self, batch: list[T], rows: Iterator[T], columns: Columns[T]) -> None:
        before = "[\n"
        while batch:
            text = json.dumps([_plain(values_of(item, columns)) for item in batch], indent=2)
            self.out.write(before + text[2:-2])
            before = ",\n"
            batch = list(islice(rows, _AT_ONCE))
        self.out.write("\n]\n")

    def item(self, item: T, columns: Columns[T]) -> None:
        """Print one item: a field per line, or one JSON object."""
        self.fields(values_of(item, columns))

    def fields(self, row: Mapping[str, Any]) -> None:
        """Print the fields of one thing, a line for each, or one JSON object."""
        if self.is_document:
            self.document(_plain(row))
        elif self.is_csv:
            self._csv(row, [_plain(row)])
        elif self.format == Format.NAME:
            self.out.write(f"{next(iter(row.values()))}\n")
        else:
            width = max(map(len, row)) + 2
            for key, value in row.items():
                self.out.write(f"{key:<{width}}{_cell(value)}\n")

    def _csv(self, header: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> None:
        """Print a header and rows; a value that is no text or number is its JSON."""
        import csv

        writer = csv.writer(self.out, lineterminator="\n")
        writer.writerow(header)
        for row in rows:
            writer.writerow(
                json.dumps(value) if isinstance(value, (dict, list, bool)) else value
                for value in row.values()
            )

    def document(self, value: Any) -> None:
        """Print a JSON or YAML document."""
        if self.format == Format.YAML:
            import yaml

            self.out.write(yaml.safe_dump(value, sort_keys=False))
        else:
            self.out.write(json.dumps(value, indent=2) + "\n")

    def typed(self, text: str) -> str:
        """The text, with this command's --context added to every tpuctl command in it."""
        name = self.shared.context
        return text if name is None else _COMMAND.sub(f"tpuctl --context {quote(name)} ", text)

    def line(self, text: str) -> None:
        """Print a line of data."""
        self.out.write(text + "\n")

    def note(self, text: str) -> None:
        """Print a message on stderr, unless --quiet is given."""
        if not self.shared.quiet:
            self.err.write(self.typed(text) + "\n")
            self.err.flush()

    def warn(self, text: str) -> None:
        """Print a warning on stderr in one line, with --quiet too."""
        self.err.write(f"warning: {self.typed(printable(text))}\n")
        self.err.flush()

    def failure(self, error: TpuctlError) -> None:
        """Print an error and its hint on stderr; with -o json as an object with its reason."""
        text = self.typed(printable(" ".join(str(error).split())))
        hint = self.typed(error.hint) if error.hint else None
        if self.format == Format.JSON:
            document = {"error": text, "reason": error.reason, "exit_code": error.exit_code}
            self.err.write(json.dumps(document | ({"hint": hint} if hint else {})) + "\n")
            return
        self.err.write(f"error: {text}\n")
        if hint:
            self.err.write(f"hint: {hint}\n")

    def interrupted(self, goes_on: Sequence[str]) -> None:
        """Print after Ctrl-C what still goes on, with the commands that end it."""
        self.err.write("\ninterrupted\n")
        self.err.writelines(f"{self.typed(line)}\n" for line in goes_on)

    def table(self, items: Iterable[T], columns: Columns[T], *, title: str = "") -> "Table":
        """A table for people, which the caller shows."""
        from rich.table import Table

        rows = [values_of(item, columns) for item in items]
        table = Table(box=None, pad_edge=False, title=title or None, title_justify="left")
        for key in columns:
            numeric = any(isinstance(row[key], (int, float, Usd)) for row in rows)
            table.add_column(
                key.replace("_", " ").upper(),
                justify="right" if numeric else "left",
                no_wrap=key not in _PROSE,
                overflow="fold",
            )
        for row in rows:
            table.add_row(*(self._styled(value) for value in row.values()))
        return table

    def _styled(self, value: Any) -> Any:
        from rich.text import Text

        if isinstance(value, Moment):
            return Text(age(self.now() - value.epoch_s))
        text = _cell(value)
        return Text(text, style=STATE_STYLES.get(text, ""))


STATE_STYLES = {
    **dict.fromkeys(("READY", "ACTIVE", "SUCCEEDED", "RUNNING", "COMPLETE"), "green"),
    **dict.fromkeys(("PREEMPTED", "SUSPENDED", "FAILED", "TERMINATED", "CORRUPT", "LOST"), "red"),
    **dict.fromkeys(("CREATING", "PROVISIONING", "WAITING", "PREPARING", "RECOVERING"), "yellow"),
    **dict.fromkeys(("UNSEALED", "UNVERIFIED", "PARTIAL"), "yellow"),
}


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
    bool: lambda value: "yes" if value else "no",
    float: lambda value: f"{value:.4g}",
    list: lambda value: ",".join(map(_cell, value)),
    tuple: lambda value: ",".join(map(_cell, value)),
    dict: lambda value: ",".join(f"{key}={_cell(inner)}" for key, inner in value.items()),
}
"""How a value is shown to people; every other one is its own text."""


def _cell(value: Any) -> str:
    return CELLS.get(type(value), str)(value) or "-"


def _plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Moment):
        return str(value)
    if isinstance(value, Usd):
        return round(value.amount, 6)
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value
