"""Listing objects in name order, page by page, folding what lies behind a delimiter."""

import sqlite3
from dataclasses import dataclass, field

from localsim.cloud.objects_model import StoredObject
from localsim.cloud.objects_tables import object_of_row

MAX_PAGE = 1000


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Which names to list: from `start` on, before `end`, at most `limit` items and prefixes."""

    prefix: str = ""
    delimiter: str = ""
    start: str = ""
    end: str = ""
    limit: int = MAX_PAGE


@dataclass(slots=True)
class Listing:
    """One page; `next_start` is where the next one begins, None after the last."""

    items: list[StoredObject] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    next_start: str | None = None

    def __len__(self) -> int:
        return len(self.items) + len(self.prefixes)


def list_page(connection: sqlite3.Connection, bucket: str, query: ListQuery) -> Listing:
    """Walk the names by index; a folded prefix is skipped by seeking behind it."""
    page = Listing()
    position: str | None = max(query.start, query.prefix)
    while position is not None:
        position = _walk(connection, bucket, query, position, page)
        if position is not None and len(page) >= query.limit:
            page.next_start = position
            break
    return page


def _walk(
    connection: sqlite3.Connection, bucket: str, query: ListQuery, position: str, page: Listing
) -> str | None:
    """Add names until the page is full or a prefix is folded; say where to go on."""
    rows = connection.execute(
        "SELECT * FROM storage_objects WHERE bucket = ? AND name >= ? ORDER BY name",
        (bucket, position),
    )
    for row in rows:
        found = object_of_row(row)
        if not found.name.startswith(query.prefix) or (query.end and found.name >= query.end):
            return None
        if len(page) >= query.limit:
            return found.name
        folded = _folded(found.name, query)
        if folded is not None:
            page.prefixes.append(folded)
            return _behind(folded)
        page.items.append(found)
    return None


def _folded(name: str, query: ListQuery) -> str | None:
    if not query.delimiter:
        return None
    at = name.find(query.delimiter, len(query.prefix))
    return None if at < 0 else name[: at + len(query.delimiter)]


def _behind(prefix: str) -> str | None:
    """The first string, in the order of UTF-8 bytes, behind every one with the prefix."""
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    # Surrogates are no characters of UTF-8.
    return kept[:-1] + chr(0xE000 if following == 0xD800 else following)
