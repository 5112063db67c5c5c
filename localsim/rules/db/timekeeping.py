"""The clock's last reading on disk, so that time goes on after a restart and never back."""

import sqlite3
from collections.abc import Iterable

from localsim.clock import Clock, ClockReading
from localsim.rules.db.journal import Journal

_TABLE = (
    "CREATE TABLE IF NOT EXISTS tpu_clock (id INTEGER PRIMARY KEY,"
    " now_s REAL NOT NULL, wall_s REAL NOT NULL, scale REAL NOT NULL)"
)


class Timekeeping:
    """Writes the clock's reading with every commit."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        """Create the table when it does not exist, and write a first reading."""
        self._journal = journal
        self._clock = clock
        self._advanced_s = clock.advanced_s
        with journal.reading(self, "tpu_clock", "reading"):
            _read(journal.connection)
        journal.write_always(self)
        with journal.change():
            self._touch()

    def write_if_advanced(self) -> None:
        """Write the reading when the clock was advanced by hand."""
        if self._clock.advanced_s != self._advanced_s:
            with self._journal.change():
                self._touch()

    def write(self, connection: sqlite3.Connection, keys: Iterable[object]) -> None:  # noqa: ARG002
        """Write the clock's reading; `keys` are not used."""
        now = self._clock.reading()
        connection.execute(
            "INSERT OR REPLACE INTO tpu_clock VALUES (0, ?, ?, ?)",
            (now.now_s, now.wall_s, now.scale),
        )

    def _touch(self) -> None:
        before_s, self._advanced_s = self._advanced_s, self._clock.advanced_s
        self._journal.note(self, None, lambda: setattr(self, "_advanced_s", before_s))


def last_reading(connection: sqlite3.Connection) -> ClockReading | None:
    """The clock's last written reading; None for a new database or an unreadable row."""
    try:
        return _read(connection)
    except ValueError:
        return None


def _read(connection: sqlite3.Connection) -> ClockReading | None:
    connection.execute(_TABLE)
    row = connection.execute("SELECT now_s, wall_s, scale FROM tpu_clock").fetchone()
    return ClockReading(*map(float, row)) if row else None
