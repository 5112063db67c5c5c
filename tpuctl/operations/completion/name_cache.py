"""The names that lists have shown: one small file for each context, which completion reads.

    completion/<context>.json   {schema, lists: {KIND or "KIND PLACE": {listed_s, rows}}}

A row is a name, a few words about it and the number of its workers. Of two commands that write at
once the later one wins: a name that is missing comes with the next list.
"""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from tpuctl.operations.completion.private_file import replace_file

SCHEMA = 1
MOST_ROWS = 1000
MOST_LISTS = 16
MOST_BYTES = 4 * 1024 * 1024
FRESH_S = 5.0
"""A list this young is not written again, nor asked for again."""
NODE, REQUEST, JOB, STEP, OBJECT = "node", "request", "job", "step", "object"
SERVICE = "service"
_SAFE = re.compile(r"[\w.@%+,=:/-]{1,1024}")
"""Names that every shell takes as one word: the scripts of shells evaluate what they are given, and
others may write into a bucket."""


class KnownName(NamedTuple):
    """A name, a few words about it, and the number of its workers where it has some."""

    name: str
    about: str = ""
    workers: int = 0


@dataclass(frozen=True, slots=True)
class KnownList:
    """The rows of a list, and when it was made, by this machine's clock."""

    listed_s: float
    rows: tuple[KnownName, ...]


def list_key(kind: str, place: str = "") -> str:
    """What a list is called in the file: its kind, and the directory or prefix that it is of."""
    return f"{kind} {place}" if place else kind


def read_lists(home: Path, context: str) -> Mapping[str, KnownList]:
    """Every list of a context; none where the file is missing or damaged."""
    try:
        with _path(home, context).open("rb") as file:
            document = json.loads(file.read(MOST_BYTES))
        if document["schema"] != SCHEMA:
            return {}
        return {key: _decode(entry) for key, entry in document["lists"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_list(home: Path, context: str, key: str, rows: Iterable[KnownName], now_s: float) -> None:
    """Keep the names of a list that was just made; a disk that is full takes nothing but them."""
    safe = (row for row in rows if _SAFE.fullmatch(row.name))
    new = KnownList(now_s, tuple(islice(safe, MOST_ROWS)))
    lists = dict(read_lists(home, context))
    old = lists.get(key)
    if old and old.rows == new.rows and 0 <= now_s - old.listed_s < FRESH_S:
        return
    lists[key] = new
    newest = sorted(lists, key=lambda each: lists[each].listed_s, reverse=True)[:MOST_LISTS]
    document = {
        "schema": SCHEMA,
        "lists": {each: {"listed_s": lists[each].listed_s, "rows": lists[each].rows}
                  for each in newest},
    }  # fmt: skip
    with suppress(OSError):
        replace_file(_path(home, context), json.dumps(document, separators=(",", ":")).encode())


def remove_lists(home: Path, context: str) -> None:
    """Remove the file of a context that is gone."""
    with suppress(OSError):
        _path(home, context).unlink(missing_ok=True)


def rename_lists(home: Path, old: str, new: str) -> None:
    """Give the file of a context to its new name, in place of one that was left there."""
    remove_lists(home, new)
    with suppress(OSError):
        _path(home, old).replace(_path(home, new))


def _path(home: Path, context: str) -> Path:
    return home / "completion" / f"{context}.json"


def _decode(entry: Mapping[str, Any]) -> KnownList:
    rows = (
        KnownName(str(name), str(about), int(workers))
        for name, about, workers in entry["rows"][:MOST_ROWS]
    )
    return KnownList(
        float(entry["listed_s"]), tuple(row for row in rows if _SAFE.fullmatch(row.name))
    )
