"""What has gone wrong since the scenario began, and when nodes became READY; survives a restart."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum

from localsim.rules.db.journal import Journal


class IncidentKind(StrEnum):
    """What happened; public on the control port."""

    READY = "ready"
    """No trouble, but a moment to which others are related."""
    PREEMPTION = "preemption"
    FAULT_BEGAN = "fault-began"
    FAULT_ENDED = "fault-ended"


@dataclass(frozen=True, slots=True)
class Incident:
    """One thing that happened; the field names are public on the control port."""

    kind: IncidentKind
    subject: str
    """The id of a node, or the text of a fault."""
    at_s: float
    """Simulated seconds since 1970; of a preemption, when its notice was given."""
    notice_s: float = 0.0


class IncidentLog:
    """The incidents in their order; they are added only within a change of the journal."""

    def __init__(self, journal: Journal) -> None:
        """Read what an earlier run left in the database, or create the table."""
        self._journal = journal
        self._rows: dict[int, Incident] = {}
        journal.connection.execute(
            "CREATE TABLE IF NOT EXISTS tpu_incidents (number INTEGER PRIMARY KEY, document TEXT)"
        )
        rows = "SELECT number, document FROM tpu_incidents ORDER BY number"
        for number, document in journal.connection.execute(rows):
            with journal.reading(self, "tpu_incidents", number):
                row = json.loads(document)
                self._rows[number] = Incident(IncidentKind(row.pop("kind")), **row)

    @property
    def rows(self) -> tuple[Incident, ...]:
        """All incidents, the oldest first."""
        return tuple(self._rows.values())

    def add(self, kind: IncidentKind, subject: str, at_s: float, *, notice_s: float = 0.0) -> None:
        """Add what has happened."""
        number = next(reversed(self._rows), 0) + 1
        self._journal.note(self, number, lambda: self._rows.pop(number))
        self._rows[number] = Incident(kind, subject, at_s, notice_s)

    def add_fault_changes(self, before: Iterable[str], after: Iterable[str], at_s: float) -> None:
        """Add the faults that ended, and those that began, between two lists of their texts."""
        old, new = Counter(before), Counter(after)
        for kind, texts in (
            (IncidentKind.FAULT_ENDED, old - new),
            (IncidentKind.FAULT_BEGAN, new - old),
        ):
            for text in texts.elements():
                self.add(kind, text, at_s)

    def clear(self) -> None:
        """Forget everything."""
        before, self._rows = self._rows, {}
        for number in before:
            self._journal.note(self, number, lambda: setattr(self, "_rows", before))

    def write(self, connection: sqlite3.Connection, keys: Iterable[int]) -> None:
        """Write or delete the incidents of those numbers."""
        for number in keys:
            row = self._rows.get(number)
            if row is None:
                connection.execute("DELETE FROM tpu_incidents WHERE number = ?", (number,))
            else:
                values = (number, json.dumps(asdict(row)))
                connection.execute("INSERT OR REPLACE INTO tpu_incidents VALUES (?, ?)", values)
