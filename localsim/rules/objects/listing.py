"""Listings of objects in name order, page by page; a delimiter folds names into prefixes.

A page reads no more rows than it shows, and a limited number that a glob rejects: it may be short,
or empty, and not the last. A folded prefix is skipped by seeking behind it, and a page begins where
the one before it ended, whatever was deleted in the meantime.
"""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from localsim.rules.objects.glob import Glob, compile_glob
from localsim.rules.objects.storage_model import StoredObject, invalid
from localsim.rules.objects.tables import OBJECT_FIELDS, object_of_row

MAX_PAGE = 1000
MAX_REJECTED = 5000
"""So many names that its glob does not match a page passes over: meanwhile everybody waits."""
MAX_EFFORT = 200_000
"""So much of the glob's own effort a page may cost beyond that, in states: about 0.1 s."""
_LAST_GENERATION = 2**63 - 1  # behind every generation of a name: its prefix comes next
_NAME, _GENERATION = 1, 2  # columns of a row

_Position = tuple[str, int]
"""A name and a generation of it: where to go on."""

_LIVE = (
    "SELECT * FROM storage_objects"
    " WHERE bucket = :bucket AND (name, generation) >= (:name, :generation)"
)
_ORDERED_LIVE = f"{_LIVE} ORDER BY name"
_ORDERED_VERSIONS = (
    f"{_LIVE} UNION ALL {_LIVE.replace('storage_objects', 'storage_noncurrent')}"
    " ORDER BY name, generation"
)
_ORDERED_DELETED = (
    f"SELECT {OBJECT_FIELDS} FROM storage_soft_deleted"
    " WHERE bucket = :bucket AND (name, generation) >= (:name, :generation)"
    " AND hard_delete_s > :now_s ORDER BY name, generation"
)
_FOLDER = 0  # the generation of a row that stands for a folder
_OTHERS = OBJECT_FIELDS.split(", ")[3:]
_FOLDER_ROW = ", ".join(["bucket", "name", str(_FOLDER), *["NULL"] * len(_OTHERS)])
_FOLDERS = " UNION ALL ".join(
    f"SELECT {_FOLDER_ROW} FROM {table} WHERE bucket = :bucket"
    f" AND (name, {_FOLDER}) >= (:name, :generation) AND name != :prefix"
    for table in ("storage_folders", "storage_managed_folders")
)
_ORDERED_WITH_FOLDERS = f"{_LIVE} UNION ALL {_FOLDERS} ORDER BY name, generation"


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Which names to list: from `start` on, before `end`, at most `limit` items and prefixes.

    `start_generation` is that of the page before, and belongs to its `next_start`.
    """

    prefix: str = ""
    delimiter: str = ""
    start: str = ""
    end: str = ""
    limit: int = MAX_PAGE
    start_generation: int = 0
    versions: bool = False
    soft_deleted: bool = False
    match_glob: str = ""
    include_trailing_delimiter: bool = False
    folders_as_prefixes: bool = False
    """Whether a folder is shown as a prefix also when nothing is in it."""


@dataclass(slots=True)
class Listing:
    """One page; `next_start` is where the next one begins, None after the last."""

    items: list[StoredObject] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    next_start: str | None = None
    next_generation: int = 0

    def __len__(self) -> int:
        return len(self.items) + len(self.prefixes)


def list_page(
    connection: sqlite3.Connection, bucket: str, query: ListQuery, now_s: float = 0.0
) -> Listing:
    """Walk the names by index; raises StorageError 400 for a glob that is none.

    Of what is soft-deleted that is listed which is still there at `now_s`.
    """
    if query.versions and query.soft_deleted:
        raise invalid("softDeleted and versions cannot both be true.")
    if query.match_glob and query.delimiter not in ("", "/"):
        raise invalid("The delimiter must be '/' where matchGlob is given.")
    if query.folders_as_prefixes and query.delimiter != "/":
        raise invalid("The delimiter must be '/' where includeFoldersAsPrefixes is given.")
    return _Walk(connection, bucket, query, now_s).page()


class _Walk:
    """A page that is being built."""

    def __init__(
        self, connection: sqlite3.Connection, bucket: str, query: ListQuery, now_s: float
    ) -> None:
        self._connection = connection
        self._query = query
        self._values: dict[str, object] = {
            "bucket": bucket,
            "prefix": query.prefix,
            "now_s": now_s,
        }
        self._glob: Glob | None = compile_glob(query.match_glob) if query.match_glob else None
        self._literal = "" if self._glob is None else self._glob.literal
        self._most_effort = MAX_EFFORT + (0 if self._glob is None else self._glob.effort)
        self._rejected = 0
        self._page = Listing()

    def page(self) -> Listing:
        """Go on from seek to seek until the names end or what is shown next has no place."""
        position: _Position | None = self._first()
        while position is not None:
            position = self._fold(position) if self._is_prefix(position) else self._scan(position)
        return self._page

    def _first(self) -> _Position:
        query = self._query
        start = max(query.start, query.prefix, self._literal)
        return start, query.start_generation if start == query.start else 0

    @property
    def _statement(self) -> str:
        if self._query.versions:
            return _ORDERED_VERSIONS
        if self._query.soft_deleted:
            return _ORDERED_DELETED
        return _ORDERED_WITH_FOLDERS if self._query.folders_as_prefixes else _ORDERED_LIVE

    @property
    def _is_full(self) -> bool:
        return len(self._page) >= self._query.limit

    @property
    def _is_tired(self) -> bool:
        """Whether the search for matches has cost enough for one page."""
        effort = 0 if self._glob is None or not self._rejected else self._glob.effort
        return self._rejected >= MAX_REJECTED or effort > self._most_effort

    def _is_prefix(self, position: _Position) -> bool:
        """Whether every object of this name is listed, and only its prefix is missing."""
        name, generation = position
        return generation == _LAST_GENERATION and self._folded(name) == name

    def _scan(self, position: _Position) -> _Position | None:
        """Add rows until the page is full or a prefix has to be skipped; say where to go on."""
        trailing: str | None = None  # an object named like its own prefix, which follows it
        for row in self._rows(position):
            name = row[_NAME]
            if trailing not in (None, name):
                break
            is_folder = row[_GENERATION] == _FOLDER
            hidden_behind = self._folded(name) if is_folder else self._hiding_prefix(name)
            is_rejected = self._glob is not None and not self._glob.matches(hidden_behind or name)
            if self._is_tired if is_rejected else self._is_full:
                self._end_before((name, row[_GENERATION]))
                return None
            if is_rejected:
                self._rejected += 1
                if hidden_behind is None:
                    continue
                return _behind(hidden_behind)
            if hidden_behind is not None:
                return self._fold((hidden_behind, row[_GENERATION]))
            self._page.items.append(object_of_row(row))
            trailing = self._folded(name)
        return None if trailing is None else (trailing, _LAST_GENERATION)

    def _rows(self, position: _Position) -> Iterator[tuple[Any, ...]]:
        """The rows in range, read one by one."""
        query, (name, generation) = self._query, position
        rows = self._connection.execute(
            self._statement,
            {**self._values, "name": name, "generation": generation},
        )
        for row in rows:
            name = row[_NAME]
            if not (name.startswith(query.prefix) and name.startswith(self._literal)):
                return
            if query.end and name >= query.end:
                return
            yield row

    def _folded(self, name: str) -> str | None:
        delimiter = self._query.delimiter
        if not delimiter:
            return None
        at = name.find(delimiter, len(self._query.prefix))
        return None if at < 0 else name[: at + len(delimiter)]

    def _hiding_prefix(self, name: str) -> str | None:
        """The prefix that stands for the object, None where the object itself is shown."""
        folded = self._folded(name)
        is_shown_too = self._query.include_trailing_delimiter and folded == name
        return None if is_shown_too else folded

    def _fold(self, position: _Position) -> _Position | None:
        """Add the prefix at the position, and go on behind it."""
        if self._is_full:
            self._end_before(position)
            return None
        self._page.prefixes.append(position[0])
        return _behind(position[0])

    def _end_before(self, position: _Position) -> None:
        self._page.next_start, self._page.next_generation = position


def _behind(prefix: str) -> _Position | None:
    """The first string, in the order of UTF-8 bytes, after all strings with the prefix."""
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    # Surrogates are not characters of UTF-8.
    return kept[:-1] + chr(0xE000 if following == 0xD800 else following), 0
