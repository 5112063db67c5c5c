"""Counters that survive a restart: of addresses given out, of random draws."""

import sqlite3
from collections.abc import Iterable

from localsim.cloud.db.journal import Journal


class DurableCounters:
    """Counters by name; memory holds only those that are not written yet."""

    def __init__(self, journal: Journal) -> None:
        """Create the table when it does not exist."""
        self._journal = journal
        self._values: dict[str, int] = {}
        journal.connection.execute(
            "CREATE TABLE IF NOT EXISTS tpu_counters (name TEXT PRIMARY KEY, value INTEGER)"
            " WITHOUT ROWID"
        )

    def add(self, name: str, step: int) -> int:
        """Add `step` to a counter and return its value before."""
        before = self._values.get(name)
        if before is None:
            before = self._written(name)
        self._values[name] = before + step
        self._journal.note(self, name, lambda: self._values.update({name: before}))
        return before

    def write(self, connection: sqlite3.Connection, keys: Iterable[str]) -> None:
        """Write the counters of those names."""
        connection.executemany(
            "INSERT OR REPLACE INTO tpu_counters VALUES (?, ?)",
            [(name, self._values.pop(name)) for name in keys],
        )

    def _written(self, name: str) -> int:
        row = self._journal.connection.execute(
            "SELECT value FROM tpu_counters WHERE name = ?", (name,)
        ).fetchone()
        return int(row[0]) if row else 0
