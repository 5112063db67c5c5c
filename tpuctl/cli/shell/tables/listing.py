"""What a list shows, and what --filter, --sort, --limit and --columns make of it."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic

from tpuctl.cli.shell.options import Handler, flag, option
from tpuctl.cli.shell.tables.values import Columns, T, cell_of, plain
from tpuctl.errors import UsageError

HEADINGS = {
    "accelerator_type": "type",
    "size_bytes": "size",
    "usd_per_hour": "usd/h",
    "usd_per_chip_hour": "usd/chip/h",
}
"""What the column of a key is called in tables; every other one by its key."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A list: every key for programs, and for people a table of some of them.

    `keys` maps the public key to its value, in the order of JSON. `table` maps the headings of the
    table to keys, or to values of their own; without it the table has every key. `least` names the
    headings that leave first where the window is too narrow.
    """

    keys: Columns[T]
    table: Mapping[str, str | Callable[[T], Any]] = field(default_factory=dict)
    least: Sequence[str] = ()

    def columns(self, *, are_all: bool = False) -> Columns[T]:
        """The columns of the table by their headings; or those and all keys that it has not."""
        shown = self.table or {HEADINGS.get(key, key): key for key in self.keys}
        if are_all:
            used = set(shown.values())
            others = {HEADINGS.get(key, key): key for key in self.keys if key not in used}
            shown = {**shown, **{name: key for name, key in others.items() if name not in shown}}
        return {name: self._value(key) for name, key in shown.items()}

    def value(self, name: str) -> Callable[[T], Any]:
        """The values of a key or of a heading. Raises UsageError for another name."""
        if name in self.keys:
            return self.keys[name]
        every = {key.lower(): get for key, get in self.columns(are_all=True).items()}
        if name.lower() in every:
            return every[name.lower()]
        raise UsageError(
            f"this list has no column {name!r}", hint=f"choose among {', '.join(self.keys)}"
        )

    def _value(self, key: str | Callable[[T], Any]) -> Callable[[T], Any]:
        return self.keys[key] if isinstance(key, str) else key


Keys = Callable[[], Iterable[str]]


def declare_keys(keys: Keys) -> Callable[[Handler], Handler]:
    """Say on the function of a verb that lists which keys its list has, for completion."""

    def declare(function: Handler) -> Handler:
        function.__dict__["list_keys"] = keys
        return function

    return declare


def complete_column(ctx: Any, _args: list[str], incomplete: str) -> list[str]:
    """The keys for --sort, and for --columns those after its last comma that it has not yet."""
    end = incomplete.rfind(",") + 1
    used = incomplete[:end].split(",")
    return [incomplete[:end] + key for key in _declared_keys(ctx) if key not in used]


def complete_condition(ctx: Any, _args: list[str], _incomplete: str) -> list[str]:
    """How a condition of --filter may begin; two ways each, so that no shell ends the word."""
    return [f"{key}{operator}" for key in _declared_keys(ctx) for operator in "=~"]


def _declared_keys(ctx: Any) -> Iterable[str]:
    keys: Keys = getattr(ctx.command.callback, "list_keys", tuple)
    return keys()


@dataclass
class ListFlags:
    """The options of a verb that lists."""

    filter: tuple[str, ...] = option(
        "Only rows whose KEY is VALUE, or matches REGEX; repeatable.",
        metavar="KEY=VALUE|KEY~REGEX",
        multiple=True,
        default=(),
        autocompletion=complete_condition,
    )
    sort: str | None = option(
        "Order by this column; -KEY: the greatest first.",
        metavar="KEY",
        autocompletion=complete_column,
    )
    columns: str | None = option(
        "Only these columns, in this order.", metavar="KEY,KEY", autocompletion=complete_column
    )
    limit: int | None = option("At most so many rows.", metavar="N", type=int)
    watch: bool = flag("Show the list again every two seconds, until Ctrl-C.", "-w")


_CONDITION = re.compile(r"([^=~]+)([=~])(.*)", re.DOTALL)


def choose_rows(rows: Iterable[T], listing: Listing[T], flags: ListFlags) -> Iterator[T]:
    """The rows that the options choose, in their order; only --sort reads all of them first."""
    tests = [_condition(text, listing) for text in flags.filter]
    chosen = (row for row in rows if all(test(row) for test in tests)) if tests else iter(rows)
    if flags.sort:
        get = listing.value(flags.sort.removeprefix("-"))
        chosen = iter(_sorted(chosen, get, is_descending=flags.sort.startswith("-")))
    if flags.limit is not None and flags.limit < 0:
        raise UsageError(f"--limit must be at least 0, not {flags.limit}")
    return islice(chosen, flags.limit)


def choose_columns(listing: Listing[T], flags: ListFlags) -> Columns[T] | None:
    """The columns that --columns names; None without it."""
    if flags.columns is None:
        return None
    names = [name.strip() for name in flags.columns.split(",") if name.strip()]
    if not names:
        raise UsageError(
            "--columns does not name a column", hint=f"choose among {', '.join(listing.keys)}"
        )
    return {name: listing.value(name) for name in names}


def _condition(text: str, listing: Listing[T]) -> Callable[[T], bool]:
    """Whether a row fulfils KEY=VALUE or KEY~REGEX."""
    parts = _CONDITION.fullmatch(text)
    if parts is None:
        raise UsageError(f"--filter {text!r} is not KEY=VALUE or KEY~REGEX")
    key, operator, wanted = parts.groups()
    get = listing.value(key)
    if operator == "=":
        return lambda row: wanted in _texts(get(row))
    try:
        pattern = re.compile(wanted)
    except re.error as error:
        raise UsageError(
            f"--filter {text!r}: {wanted!r} is not a regular expression: {error}"
        ) from error
    return lambda row: any(map(pattern.search, _texts(get(row))))


def _texts(value: Any) -> list[str]:
    """The texts by which a value is found: of a list those of each element."""
    if isinstance(value, (list, tuple)):
        return [text for each in value for text in _texts(each)]
    return [cell_of(value), str(plain(value))]


_IN_ORDER: tuple[Any, ...] = ((int, float), list)
"""Numbers, and ranges by where they begin; every other value is ordered by its text."""


def _sorted(rows: Iterable[T], get: Callable[[T], Any], *, is_descending: bool) -> Iterable[T]:
    """The rows in the order of a column; those without a value come last."""
    valued = [(plain(get(row)), row) for row in rows]
    known = [(value, row) for value, row in valued if value is not None]
    are_in_order = any(all(isinstance(value, kind) for value, _ in known) for kind in _IN_ORDER)
    known.sort(key=lambda pair: pair[0] if are_in_order else str(pair[0]), reverse=is_descending)
    return [row for _, row in known] + [row for value, row in valued if value is None]
