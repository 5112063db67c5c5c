"""What has changed since the last commit: how to take it back, and what has to be written.

Memory changes first. The rows are written when the outermost block ends, in one transaction with
one flush of the disk, however many changes the block held; so calls can share a flush, and nobody
is answered before it. A block that fails takes back its own changes, in memory, and writes nothing.
"""

import sqlite3
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from localsim.rules.db.database import transaction
from localsim.rules.model.cloud_errors import CloudError, Code

Undo = Callable[[], object]
_MAY_PASS = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
)
UNREADABLE = (
    CloudError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)
"""What reading a document raises that this version of localsim has not written so."""


class NotWrittenError(CloudError):
    """The disk did not take a change, which is taken back: UNAVAILABLE."""

    def __init__(self, cause: sqlite3.Error) -> None:
        super().__init__(Code.UNAVAILABLE, f"localsim cannot write its state: {cause}")
        self.may_pass = getattr(cause, "sqlite_errorcode", 0) & 0xFF in _MAY_PASS
        """Whether the disk may take it later: it is full, say, and not the database broken."""


class JournalTable(Protocol):
    """A table in memory that writes its rows to disk."""

    def write(self, connection: sqlite3.Connection, keys: Iterable[Any]) -> None:
        """Write the rows of these keys as they are in memory, or delete them."""


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """A row that could not be read at the start: it stays on disk and is not served."""

    table: str
    name: str
    cause: str


class Journal:
    """The changes of one database that are not on disk yet."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Begin without changes."""
        self.connection = connection
        self._undo: list[Undo] = []
        self._unwritten: dict[JournalTable, dict[Hashable, None]] = {}
        self._always: list[JournalTable] = []
        self._unreadable: dict[tuple[JournalTable, Hashable], UnreadableRecord] = {}
        self._depth = 0

    def write_always(self, table: JournalTable) -> None:
        """Write this table with every commit, whatever has changed."""
        self._always.append(table)

    @property
    def unreadable(self) -> tuple[UnreadableRecord, ...]:
        """The rows that were set aside when their tables were opened."""
        return tuple(self._unreadable.values())

    def is_set_aside(self, table: JournalTable, key: Hashable) -> bool:
        """Whether the row of that key was set aside."""
        return (table, key) in self._unreadable

    @contextmanager
    def reading(self, table: JournalTable, table_name: str, key: Hashable) -> Iterator[None]:
        """Set the row of `key` aside when the block, which reads it, fails."""
        try:
            yield
        except UNREADABLE as error:
            cause = f"{error}" or type(error).__name__
            self._unreadable[table, key] = UnreadableRecord(
                table_name, str(key), cause.splitlines()[0]
            )

    def delete_unreadable(self) -> None:
        """Delete the rows that were set aside; only within `change`."""
        for (table, key), record in self._unreadable.items():
            self.note(table, key, partial(self._unreadable.__setitem__, (table, key), record))
        self._unreadable = {}

    def note(self, table: JournalTable, key: Hashable, undo: Undo) -> None:
        """Record that a row changed in memory; `undo` takes that back. Only within `change`."""
        if not self._depth:
            raise RuntimeError(f"{key} was changed outside of a change")
        self._undo.append(undo)
        self._unwritten.setdefault(table, {})[key] = None

    @contextmanager
    def change(self) -> Iterator[None]:
        """Run the block as a whole or not at all; the outermost block writes to disk at its end.

        Raises NotWrittenError.
        """
        mark = len(self._undo)
        self._depth += 1
        try:
            yield
            if self._depth == 1:
                self._commit()
        except BaseException:
            while len(self._undo) > mark:
                self._undo.pop()()
            raise
        finally:
            self._depth -= 1
            if not self._depth:
                self._undo.clear()
                self._unwritten.clear()

    def _commit(self) -> None:
        if not self._undo:  # whatever was noted has been taken back since
            return
        try:
            with transaction(self.connection):
                for table, keys in {**dict.fromkeys(self._always, ()), **self._unwritten}.items():
                    table.write(self.connection, keys)
        except sqlite3.Error as error:
            raise NotWrittenError(error) from error


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
