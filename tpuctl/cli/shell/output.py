"""Data to stdout, all else to stderr; the one place that knows tables, JSON and terminals."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING, Any, TextIO

from tpuctl.cli.shell.options import Format, Shared
from tpuctl.cli.shell.tables.fit import GAP, Fitted, fit_columns
from tpuctl.cli.shell.tables.grid import STATE_STYLES, print_grid
from tpuctl.cli.shell.tables.json_text import json_pieces
from tpuctl.cli.shell.tables.listing import ListFlags, Listing, choose_columns, choose_rows
from tpuctl.cli.shell.tables.values import (
    Columns,
    PointInTime,
    Size,
    T,
    Usd,
    cell_of,
    plain,
    printable,
    seen,
    values_of,
)
from tpuctl.errors import TpuctlError
from tpuctl.models.duration import age

if TYPE_CHECKING:
    from rich.text import Text

_AT_ONCE = 1000
RED, YELLOW, BOLD = "31", "38;5;136", "1"
_TEXT = (
    "why", "error", "command", "details", "reason", "description", "source", "sentence", "about",
    "place",
)  # fmt: skip
"""Columns of prose, which may be shortened; numbers, names and zones never are."""
CONTEXT_COMMANDS = (
    "node", "queued-resource", "qr", "job", "service", "data", "checkpoint", "supervisor", "run",
    "predict", "serve", "plan", "top", "dashboard", "capacity", "explain", "doctor", "sweep",
    "history", "cost", "record",
)  # fmt: skip
"""Those that a context makes a difference to."""
_COMMAND = re.compile(rf"\btpuctl (?=(?:{'|'.join(CONTEXT_COMMANDS)})(?![\w-]))")


@dataclass
class Output:
    """Prints results and messages as the shared options say."""

    shared: Shared
    out: TextIO
    err: TextIO
    now: Callable[[], float]
    list_flags: ListFlags = field(default_factory=ListFlags)

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
        """Whether the format is values separated by commas or tabs, with a header of keys."""
        return self.format in (Format.CSV, Format.TSV)

    @property
    def is_table(self) -> bool:
        """Whether the format is a table."""
        return self.format in (Format.TABLE, Format.WIDE)

    def items(
        self, items: Iterable[T], columns: Columns[T] | Listing[T], *, title: str = ""
    ) -> None:
        """Print a list: one row or one JSON object per item, as the options of the list say."""
        listing = columns if isinstance(columns, Listing) else Listing(columns)
        self._rows(list(choose_rows(items, listing, self.list_flags)), listing, title=title)

    def stream(
        self, items: Iterable[T], columns: Columns[T] | Listing[T], *, title: str = ""
    ) -> None:
        """Print a list as `items` does, while it comes, with a thousand rows in memory."""
        listing = columns if isinstance(columns, Listing) else Listing(columns)
        rows = choose_rows(items, listing, self.list_flags)
        batch = list(islice(rows, _AT_ONCE))
        if self.format == Format.JSON and batch:
            self._stream_json(batch, rows, self._keys(listing))
            return
        self._rows(batch, listing, title=title)
        while batch := list(islice(rows, _AT_ONCE)):
            self._rows(batch, listing, is_first=False)

    def _rows(
        self, rows: list[T], listing: Listing[T], *, title: str = "", is_first: bool = True
    ) -> None:
        if self.is_document:
            self.document([plain(values_of(row, self._keys(listing))) for row in rows])
        elif self.is_csv:
            keys = self._keys(listing)
            self._separated(keys, [plain(values_of(row, keys)) for row in rows], is_first=is_first)
        elif self.format == Format.NAME:
            name = next(iter(self._keys(listing).values()))
            self.out.writelines(f"{name(row)}\n" for row in rows)
        elif not rows:
            if title and self.is_terminal:
                self.note(f"no {title}")
        elif self.is_terminal:
            self._table(rows, listing, title=title)
        else:
            self._tabbed(rows, self._headings(listing), is_first=is_first)

    def _keys(self, listing: Listing[T]) -> Columns[T]:
        """The columns for programs, by their keys."""
        return choose_columns(listing, self.list_flags) or listing.keys

    def _headings(self, listing: Listing[T]) -> Columns[T]:
        """The columns for people, by their headings."""
        chosen = choose_columns(listing, self.list_flags)
        return chosen or listing.columns(are_all=self.format == Format.WIDE)

    def _tabbed(self, rows: list[T], columns: Columns[T], *, is_first: bool) -> None:
        """Print rows with a tab between their cells, below a row of headings."""
        if is_first and not self.shared.no_headers:
            self.out.write("\t".join(map(_heading, columns)) + "\n")
        # Column by column, and only then row by row: half the time for a thousand rows.
        cells = [[cell_of(get(row)) for row in rows] for get in columns.values()]
        self.out.writelines("\t".join(row) + "\n" for row in zip(*cells, strict=True))

    def _table(self, rows: list[T], listing: Listing[T], *, title: str) -> None:
        """Print an aligned table whose columns fit the window; what does not fit is named below."""
        from rich.console import Console

        columns = self._headings(listing)
        values = {name: [get(row) for row in rows] for name, get in columns.items()}
        texts = {
            name: [seen(each, self._age) for each in listed] for name, listed in values.items()
        }
        fitted = self._fitted(texts, listing)
        console = Console(file=self.out, highlight=False, soft_wrap=True)
        if title:
            console.print(title, style="italic", markup=False)
        right = {
            name
            for name, listed in values.items()
            if name.startswith("usd") or any(map(_is_number, listed))
        }
        if not self.shared.no_headers:
            headings = {name: _heading(name) for name in fitted.widths}
            console.print(_line(headings, fitted, right).plain, style="bold", markup=False)
        for number in range(len(rows)):
            row = {name: texts[name][number] for name in fitted.widths}
            for line in _row_lines(row, fitted, right):
                console.print(line)
        if fitted.left_out:
            for text in _left_out_lines(fitted.left_out):
                console.print(text, style="dim", markup=False)

    def _fitted(self, texts: Mapping[str, Sequence[str]], listing: Listing[T]) -> Fitted:
        from rich.cells import cell_len

        natural = {
            name: max(map(cell_len, (_heading(name), *column))) for name, column in texts.items()
        }
        if self.format == Format.WIDE or self.list_flags.columns:
            return Fitted(natural, ())
        return fit_columns(natural, window_width(), text=_TEXT, least=listing.least)

    def _age(self, epoch_s: float) -> str:
        passed_s = self.now() - epoch_s
        return age(passed_s) if passed_s >= 0 else f"in {age(-passed_s)}"

    def _stream_json(self, batch: list[T], rows: Iterator[T], columns: Columns[T]) -> None:
        before = "[\n"
        while batch:
            text = "".join(json_pieces([plain(values_of(item, columns)) for item in batch]))
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
            self.document(plain(row))
        elif self.is_csv:
            self._separated(row, [plain(row)])
        elif self.format == Format.NAME:
            self.out.write(f"{next(iter(row.values()))}\n")
        elif self.is_terminal:
            self._field_grid(row)
        else:
            width = max(map(len, row)) + GAP
            self.out.writelines(f"{key:<{width}}{cell_of(row[key])}\n" for key in row)

    def _field_grid(self, row: Mapping[str, Any]) -> None:
        """Print fields as two columns: the label, and the value wrapped beside it.

        Fields without a value are left out, but for prices: one that is not known is worth a line.
        """
        from rich.console import Console

        lines = [
            (_label(key, value) if number == 0 else "", text)
            for key, value in row.items()
            if value not in (None, "", [], (), {}) or key.startswith("usd")
            for number, text in enumerate(self._field_texts(value))
        ]
        print_grid(Console(file=self.out, highlight=False), lines, first="dim")

    def _field_texts(self, value: Any) -> list[str]:
        """The lines of a value for people: an entry of a list of records has a line of its own."""
        if isinstance(value, PointInTime) and value.epoch_s <= self.now():
            return [f"{value} ({self._age(value.epoch_s)} ago)"]
        if isinstance(value, (list, tuple)) and value:
            texts = [text for each in value for text in self._field_texts(each)]
            are_records = any(isinstance(each, Mapping) for each in value)
            return texts if are_records else [", ".join(texts)]
        if isinstance(value, Mapping) and value:
            known = {key: inner for key, inner in value.items() if inner not in (None, "", [], {})}
            texts = [f"{key}={', '.join(self._field_texts(each))}" for key, each in known.items()]
            return [", ".join(texts)]
        return [str(value) if isinstance(value, PointInTime) else seen(value, self._age)]

    def _separated(
        self, header: Iterable[str], rows: Iterable[Mapping[str, Any]], *, is_first: bool = True
    ) -> None:
        """Print a header of keys and rows; a value that is not a text or number is its JSON."""
        import csv

        separator = "," if self.format == Format.CSV else "\t"
        writer = csv.writer(self.out, delimiter=separator, lineterminator="\n")
        if is_first and not self.shared.no_headers:
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
            # Piece by piece: ten thousand rows are some megabytes.
            self.out.writelines(json_pieces(value))
            self.out.write("\n")

    def typed(self, text: str) -> str:
        """The text, with this command's --context added to every tpuctl command in it."""
        name = self.shared.context
        return text if name is None else _COMMAND.sub(f"tpuctl --context {quote(name)} ", text)

    def sentence(self, text: str) -> None:
        """Print a sentence as one line, or on a terminal as lines that end with a word."""
        if not self.is_terminal:
            self.line(text)
            return
        for part in wrap(text, window_width()):
            self.line(part)

    def line(self, text: str) -> None:
        """Print a line of data."""
        self.out.write(text + "\n")

    def note(self, text: str) -> None:
        """Print a message on stderr, unless --quiet is given.

        On a terminal its lines end with a word, but for those with a command, which is copied.
        """
        if self.shared.quiet:
            return
        text = self.typed(text)
        is_prose = self.err.isatty() and text.isprintable() and "tpuctl " not in text
        lines = wrap(text, window_width()) if is_prose and len(text) > window_width() else [text]
        self.err.writelines(f"{line}\n" for line in lines)
        self.err.flush()

    def warn(self, text: str) -> None:
        """Print a warning on stderr, with --quiet too."""
        self._say("warning", YELLOW, self.typed(printable(text)))
        self.err.flush()

    def failure(self, error: TpuctlError) -> None:
        """Print an error and its hint on stderr; with -o json as an object with its reason."""
        text = self.typed(printable(" ".join(str(error).split())))
        hint = self.typed(error.hint) if error.hint else None
        if self.format == Format.JSON:
            document = {"error": text, "reason": error.reason, "exit_code": error.exit_code}
            self.err.write(json.dumps(document | ({"hint": hint} if hint else {})) + "\n")
            return
        self._say("error", RED, text)
        if hint:
            self.err.write(f"{self._label('hint', BOLD)} {hint}\n")

    def _say(self, word: str, style: str, text: str) -> None:
        """Write a labelled message in one line, or on a terminal in lines that end with a word."""
        lines = [f"{word}: {text}"]
        if self.err.isatty():
            lines = wrap(lines[0], window_width())
        first = lines[0].removeprefix(f"{word}:")
        self.err.write(f"{self._label(word, style)}{first}\n")
        self.err.writelines(f"{line}\n" for line in lines[1:])

    def _label(self, word: str, style: str) -> str:
        """The word that begins a message, coloured on a terminal that shows colours."""
        return f"\x1b[{style}m{word}:\x1b[0m" if self.shows_colours(self.err) else f"{word}:"

    def shows_colours(self, stream: TextIO) -> bool:
        """Whether a stream goes to a terminal that shows colours, and nobody minds them."""
        is_dumb = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        return stream.isatty() and not is_dumb

    def interrupted(self, goes_on: Sequence[str]) -> None:
        """Print after Ctrl-C what still goes on, with the commands that end it."""
        self.err.write("\ninterrupted\n")
        self.err.writelines(f"{self.typed(line)}\n" for line in goes_on)


WORKER_COLOURS = (30, 166, 62, 28, 132, 136, 67, 97, 64, 131)
"""256-colour numbers that are readable on black and on white, one for each worker; repeated."""


def worker_label(workers: str, first: int, *, is_coloured: bool) -> str:
    """`[0-3]`: whose line it is, in the colour of the first of these workers."""
    colour = WORKER_COLOURS[first % len(WORKER_COLOURS)]
    return f"\x1b[38;5;{colour}m[{workers}]\x1b[0m" if is_coloured else f"[{workers}]"


def window_width() -> int:
    """The columns of the terminal."""
    from shutil import get_terminal_size

    return get_terminal_size().columns


def wrap(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` cells that end with a word; longer words are whole."""
    from textwrap import wrap as wrap_words

    return wrap_words(text, width, break_long_words=False, break_on_hyphens=False)


def _left_out_lines(names: Iterable[str]) -> list[str]:
    """Which columns are not shown, and what shows them, as short as the window is."""
    hidden, window = ", ".join(map(_heading, names)), window_width()
    text = f"not shown: {hidden} (-o wide, or a wider window)"
    if len(text) <= window:
        return [text]
    lines = wrap(f"not shown: {hidden} (-o\N{NO-BREAK SPACE}wide)", window)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _heading(name: str) -> str:
    return name.replace("_", " ").upper()


def _label(key: str, value: Any) -> str:
    """What a field is called for people: `size` and `sent`, where the value has its unit."""
    if isinstance(value, Size):
        key = key.removesuffix("_bytes").removeprefix("bytes_")
    return key.replace("usd_per_hour", "usd/h").replace("_", " ")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Usd, Size)) and not isinstance(value, bool)


def _row_lines(row: Mapping[str, str], fitted: Fitted, right: Iterable[str]) -> Iterator["Text"]:
    """A row of a table; a name that is wider than its column stands on a line above the rest."""
    from rich.cells import cell_len
    from rich.text import Text

    first, name = next(iter(row.items()))
    if cell_len(name) <= fitted.widths[first] or first in _TEXT:
        yield _line(row, fitted, right)
        return
    rest = _line({**row, first: ""}, fitted, right)
    over = cell_len(name) % window_width()
    if cell_len(name) > window_width() and 0 < over <= fitted.widths[first]:
        # The terminal itself breaks the name, which is copied whole: the rest goes beside its end.
        yield Text.assemble(name, rest[over:])
        return
    yield Text(name, no_wrap=True)
    if rest.plain.strip():
        yield rest


def _line(row: Mapping[str, str], fitted: Fitted, right: Iterable[str]) -> "Text":
    """One line of a table: each text in the width of its column, coloured where it is a state."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    line, last = Text(no_wrap=True), list(row)[-1]
    for name, text in row.items():
        width = fitted.widths[name]
        if cell_len(text) > width:
            text = set_cell_size(text, width - 1).rstrip() + "…"
        padding = " " * (width - cell_len(text))
        line.append(padding if name in right else "")
        line.append(text, STATE_STYLES.get(text, ""))
        if name != last:
            line.append(("" if name in right else padding) + " " * GAP)
    return line
