"""Future actions of the simulated cloud: durable, in the order of their due times."""

import sqlite3
from bisect import bisect_left, insort
from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from localsim.rules.db.journal import Journal


class Action(StrEnum):
    """What is done when an entry falls due."""

    PROVISION_NODE = "provision node"
    PREEMPT_NODE = "preempt node"
    EXPIRE_NODE = "expire node"
    END_SPOT_LIFE = "end spot life"
    LOSE_WORKER = "lose worker"
    NOTICE_TROUBLE = "notice trouble"
    ANNOUNCE_MAINTENANCE = "announce maintenance"
    UPDATE_NODE = "update node"
    BEGIN_MAINTENANCE = "begin maintenance"
    REPAIR_NODE = "repair node"
    REMOVE_NODE = "remove node"
    ACCEPT_REQUEST = "accept request"
    ADMIT_REQUEST = "admit request"
    EXPIRE_REQUEST = "expire request"
    REPAIR_REQUEST = "repair request"
    END_RUN = "end run"
    SUSPEND_REQUEST = "suspend request"
    REMOVE_REQUEST = "remove request"
    CHANGE_CAPACITY = "change capacity"
    FIRE_ENTRY = "fire entry"
    END_ENTRY = "end entry"


class AgendaEntry(NamedTuple):
    """One action on the resource named `subject`, at `due_s`."""

    due_s: float
    sequence: int
    action: Action
    subject: str


class Agenda:
    """The entries, found by due time and by subject."""

    def __init__(self, journal: Journal) -> None:
        """Read the table; it is created when it does not exist."""
        self._journal = journal
        self._entries: list[AgendaEntry] = []
        self._by_sequence: dict[int, AgendaEntry] = {}
        self._by_subject: dict[str, dict[int, AgendaEntry]] = {}
        journal.connection.execute(
            "CREATE TABLE IF NOT EXISTS tpu_agenda (sequence INTEGER PRIMARY KEY,"
            " due_s REAL NOT NULL, action TEXT NOT NULL, subject TEXT NOT NULL)"
        )
        rows = "SELECT due_s, sequence, action, subject FROM tpu_agenda ORDER BY due_s, sequence"
        self._last_sequence = 0
        for due_s, sequence, action, subject in journal.connection.execute(rows):
            self._last_sequence = max(self._last_sequence, sequence)
            with journal.reading(self, "tpu_agenda", sequence):
                self._insert(AgendaEntry(float(due_s), sequence, Action(action), subject))

    def next_due_s(self) -> float | None:
        """The due time of the first entry, or None."""
        return self._entries[0].due_s if self._entries else None

    def has(self, action: Action, subject: str) -> bool:
        """Whether an entry with that action and subject exists."""
        return any(each.action == action for each in self._by_subject.get(subject, {}).values())

    def add(self, due_s: float, action: Action, subject: str) -> None:
        """Add an entry; only within a change of the journal."""
        self._last_sequence += 1
        entry = AgendaEntry(due_s, self._last_sequence, action, subject)
        self._insert(entry)
        self._journal.note(self, entry.sequence, lambda: self._drop(entry))

    def take(self, now_s: float) -> AgendaEntry | None:
        """Remove and return the first entry when it is due, else None."""
        if not self._entries or self._entries[0].due_s > now_s:
            return None
        entry = self._entries[0]
        self._cancel([entry])
        return entry

    def cancel(self, subject: str) -> None:
        """Remove every entry of the subject."""
        self._cancel(list(self._by_subject.get(subject, {}).values()))

    def clear(self) -> None:
        """Remove every entry."""
        self._cancel(list(self._entries))

    def write(self, connection: sqlite3.Connection, keys: Iterable[int]) -> None:
        """Write or delete the entries of those sequence numbers."""
        entries = {key: self._by_sequence.get(key) for key in keys}
        connection.executemany(
            "DELETE FROM tpu_agenda WHERE sequence = ?",
            [(key,) for key, entry in entries.items() if entry is None],
        )
        connection.executemany(
            "INSERT INTO tpu_agenda (due_s, sequence, action, subject) VALUES (?, ?, ?, ?)",
            [entry for entry in entries.values() if entry is not None],
        )

    def _cancel(self, entries: Iterable[AgendaEntry]) -> None:
        for entry in entries:
            self._drop(entry)
            self._journal.note(self, entry.sequence, partial(self._insert, entry))

    def _insert(self, entry: AgendaEntry) -> None:
        insort(self._entries, entry)
        self._by_sequence[entry.sequence] = entry
        self._by_subject.setdefault(entry.subject, {})[entry.sequence] = entry

    def _drop(self, entry: AgendaEntry) -> None:
        del self._entries[bisect_left(self._entries, entry)]
        del self._by_sequence[entry.sequence]
        promised = self._by_subject[entry.subject]
        del promised[entry.sequence]
        if not promised:
            del self._by_subject[entry.subject]
