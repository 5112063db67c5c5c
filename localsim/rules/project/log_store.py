"""The project's log entries, as Cloud Logging keeps them: durable at once, the oldest dropped."""

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from localsim.rules.db.database import transaction

MOST_ENTRIES = 200_000
MOST_BYTES = 128 * 1024 * 1024
PART = 500
"""So many entries are read at once: whoever reads all of them lets others in between."""


@dataclass(frozen=True, slots=True)
class EntryKey:
    """What tells one entry from another, in the order in which entries are listed."""

    timestamp: str
    """RFC 3339 in UTC with nine digits of the second, so that text sorts as time does."""
    insert_id: str
    log: str


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry; `body` is its encoded message."""

    key: EntryKey
    body: bytes


class LogStore:
    """Entries by time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Create the table when it does not exist."""
        self._connection = connection
        self._held: tuple[int, int] | None = None
        """At most so many entries and bytes are stored; None before they were counted."""
        connection.execute(
            "CREATE TABLE IF NOT EXISTS log_entries"
            " (timestamp TEXT, insert_id TEXT, log TEXT, body BLOB,"
            " PRIMARY KEY (timestamp, insert_id, log))"
        )

    def add(self, entries: Iterable[StoredEntry]) -> None:
        """Store entries; one with the key of another one is dropped, as Cloud Logging does."""
        rows = [(*_columns(entry.key), entry.body) for entry in entries]
        count, size = self._measure() if self._held is None else self._held
        count, size = count + len(rows), size + sum(len(row[-1]) for row in rows)
        with transaction(self._connection):
            self._connection.executemany(
                "INSERT OR IGNORE INTO log_entries VALUES (?, ?, ?, ?)", rows
            )
            if count > MOST_ENTRIES or size > MOST_BYTES:
                self._drop_oldest()
                count, size = self._measure()
        self._held = count, size

    def part(self, after: EntryKey | None, *, newest_first: bool) -> list[StoredEntry]:
        """The next entries behind a key, or the first ones, in the order that is asked for."""
        order, sign = ("DESC", "<") if newest_first else ("ASC", ">")
        where, key = ("", ()) if after is None else (f"({_KEY}) {sign} (?, ?, ?)", _columns(after))
        query = (
            f"SELECT {_KEY}, body FROM log_entries {f'WHERE {where}' if where else ''}"  # noqa: S608
            f" ORDER BY timestamp {order}, insert_id {order}, log {order} LIMIT {PART}"
        )
        return list(_entries(self._connection.execute(query, key)))

    def clear(self) -> None:
        """Delete every entry."""
        self._connection.execute("DELETE FROM log_entries")
        self._held = None

    def _measure(self) -> tuple[int, int]:
        query = "SELECT count(*), total(length(body)) FROM log_entries"
        count, size = self._connection.execute(query).fetchone()
        return count, int(size)

    def _drop_oldest(self) -> None:
        """Drop what is too much, and a tenth of the bounds with it: the next writes find room."""
        running = "sum(length(body)) OVER (ORDER BY timestamp DESC, rowid)"
        kept = (
            f"SELECT rowid AS kept, {running} AS size, row_number() OVER"  # noqa: S608
            " (ORDER BY timestamp DESC, rowid) AS place FROM log_entries"
        )
        self._connection.execute(
            f"DELETE FROM log_entries WHERE rowid IN"  # noqa: S608
            f" (SELECT kept FROM ({kept}) WHERE place > ? OR size > ?)",
            (MOST_ENTRIES * 9 // 10, MOST_BYTES * 9 // 10),
        )


_KEY = "timestamp, insert_id, log"


def _columns(key: EntryKey) -> tuple[str, str, str]:
    return key.timestamp, key.insert_id, key.log


def _entries(rows: Iterable[tuple[str, str, str, bytes]]) -> Iterator[StoredEntry]:
    for timestamp, insert_id, log, body in rows:
        yield StoredEntry(EntryKey(timestamp, insert_id, log), body)
