"""Numbers that only grow: addresses handed out, draws made."""

import sqlite3
from collections.abc import Iterable

from localsim.cloud.db.journal import Journal


class DurableCounters:
    """Counters by name; on disk, and in memory only until they are written."""

    def __init__(self, journal: Journal) -> None:
        """Open the table, made when it is not there."""
        self._journal = journal
        self._values: dict[str, int] = {}
        journal.connection.execute(
            "CREATE TABLE IF NOT EXISTS tpu_counters (name TEXT PRIMARY KEY, value INTEGER)"
            " WITHOUT ROWID"
        )

    def add(self, name: str, step: int) -> int:
        """Add to a counter and return what it was before."""
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
