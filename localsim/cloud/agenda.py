"""What the simulated cloud has promised to do later: durable, in the order it falls due."""

import sqlite3
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Action(StrEnum):
    """What happens when an entry falls due."""

    PROVISION_NODE = "provision node"
    PREEMPT_NODE = "preempt node"
    REMOVE_NODE = "remove node"
    ACCEPT_REQUEST = "accept request"
    ADMIT_REQUEST = "admit request"
    SUSPEND_REQUEST = "suspend request"
    REMOVE_REQUEST = "remove request"


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One action on the resource named `subject`, at `due_s`."""

    due_s: float
    sequence: int
    action: Action
    subject: str


class Agenda:
    """Entries by due time; every change is written inside the caller's transaction."""

    def __init__(self, connection: sqlite3.Connection, undo: list[Callable[[], object]]) -> None:
        """Open the table, made when it is not there."""
        self._connection = connection
        self._undo = undo
        connection.execute(
            "CREATE TABLE IF NOT EXISTS tpu_agenda (sequence INTEGER PRIMARY KEY,"
            " due_s REAL NOT NULL, action TEXT NOT NULL, subject TEXT NOT NULL)"
        )
        rows = connection.execute("SELECT due_s, sequence, action, subject FROM tpu_agenda")
        self._entries = sorted(Entry(due, n, Action(what), who) for due, n, what, who in rows)

    def next_due_s(self) -> float | None:
        """When the first entry falls due, if there is one."""
        return self._entries[0].due_s if self._entries else None

    def has(self, action: Action, subject: str) -> bool:
        """Whether that action is to come for the subject."""
        return any((each.action, each.subject) == (action, subject) for each in self._entries)

    def add(self, due_s: float, action: Action, subject: str) -> None:
        """Promise an action."""
        cursor = self._connection.execute(
            "INSERT INTO tpu_agenda (due_s, action, subject) VALUES (?, ?, ?)",
            (due_s, action, subject),
        )
        entry = Entry(due_s, cursor.lastrowid or 0, action, subject)
        insort(self._entries, entry)
        self._undo.append(lambda: self._entries.remove(entry))

    def take(self, now_s: float) -> Entry | None:
        """The first entry that is due, taken off the agenda."""
        if not self._entries or self._entries[0].due_s > now_s:
            return None
        entry = self._entries[0]
        self._drop([entry])
        return entry

    def cancel(self, subject: str) -> None:
        """Forget everything promised for the subject."""
        self._drop([entry for entry in self._entries if entry.subject == subject])

    def clear(self) -> None:
        """Forget everything."""
        self._drop(list(self._entries))

    def _drop(self, entries: list[Entry]) -> None:
        self._connection.executemany(
            "DELETE FROM tpu_agenda WHERE sequence = ?", [(entry.sequence,) for entry in entries]
        )
        for entry in entries:
            self._entries.remove(entry)
        self._undo.append(lambda: self._entries.extend(entries))
        self._undo.append(lambda: self._entries.sort())
