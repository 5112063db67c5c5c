"""The timeline in force: its entries, and how far each has come; it survives a restart."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from localsim.rules.db.journal import Journal
from localsim.rules.scenario import timeline_texts
from localsim.rules.scenario.timeline_types import EntryState, RequestTrigger, TimelineEntry


@dataclass(frozen=True, slots=True)
class EntryProgress:
    """An entry, and how far it has come."""

    entry: TimelineEntry
    state: EntryState = EntryState.WAITING
    armed_s: float | None = None
    """When it began to wait for its moment."""
    count: int = 0
    """How many of the requests, or READY nodes, that it counts have come since."""
    has_come: bool = False
    """Whether its moment has come: from then on only time separates it from its end."""
    fired_s: float | None = None
    """When it happened."""
    request: int = 0
    """The number of the request that it waited for; 0: none, or requests are not logged."""
    problem: str = ""
    """Why an action of it could not be carried out."""

    @property
    def waits(self) -> bool:
        """Whether it waits for its moment."""
        return self.state is EntryState.ARMED and not self.has_come


class Timeline:
    """The entries in their order; they are changed only within a change of the journal."""

    def __init__(self, journal: Journal) -> None:
        """Read what an earlier run left in the database, or create the table."""
        self._journal = journal
        self._by_name: dict[str, EntryProgress] = {}
        self._requests: tuple[EntryProgress, ...] | None = None
        journal.connection.execute(
            "CREATE TABLE IF NOT EXISTS tpu_timeline"
            " (name TEXT PRIMARY KEY, position INTEGER, document TEXT) WITHOUT ROWID"
        )
        rows = "SELECT name, document FROM tpu_timeline ORDER BY position"
        for name, document in journal.connection.execute(rows):
            with journal.reading(self, "tpu_timeline", name):
                self._by_name[name] = _read(json.loads(document))

    def __iter__(self) -> Iterator[EntryProgress]:
        return iter(tuple(self._by_name.values()))

    def find(self, name: str) -> EntryProgress | None:
        """The entry of that name, or None."""
        return self._by_name.get(name)

    @property
    def names(self) -> Sequence[str]:
        """The names of all entries."""
        return tuple(self._by_name)

    def waiting_for_requests(self) -> tuple[EntryProgress, ...]:
        """The entries that wait for a request of Cloud Storage."""
        if self._requests is None:
            self._requests = tuple(
                each
                for each in self
                if each.waits and isinstance(each.entry.trigger, RequestTrigger)
            )
        return self._requests

    def following(self, name: str) -> tuple[EntryProgress, ...]:
        """The entries that are armed when that one has happened."""
        return tuple(each for each in self if each.entry.parent == name)

    def put(self, progress: EntryProgress) -> EntryProgress:
        """Add an entry or change how far it has come."""
        name = progress.entry.name
        self._set(name, progress)
        return progress

    def change(self, name: str, **changes: Any) -> EntryProgress:
        """Change how far an entry has come."""
        return self.put(replace(self._by_name[name], **changes))

    def clear(self) -> None:
        """Remove every entry."""
        for name in self.names:
            self._set(name, None)

    def write(self, connection: sqlite3.Connection, keys: Iterable[str]) -> None:
        """Write or delete the entries of those names."""
        positions = {name: position for position, name in enumerate(self._by_name)}
        for name in keys:
            progress = self._by_name.get(name)
            if progress is None:
                connection.execute("DELETE FROM tpu_timeline WHERE name = ?", (name,))
            else:
                row = (name, positions[name], json.dumps(_written(progress)))
                connection.execute("INSERT OR REPLACE INTO tpu_timeline VALUES (?, ?, ?)", row)

    def _set(self, name: str, progress: EntryProgress | None) -> None:
        before = dict(self._by_name)
        self._journal.note(self, name, lambda: self._restore(before))
        self._requests = None
        if progress is None:
            del self._by_name[name]
        else:
            self._by_name[name] = progress

    def _restore(self, before: dict[str, EntryProgress]) -> None:
        self._by_name, self._requests = before, None


def _written(progress: EntryProgress) -> dict[str, Any]:
    (entry,) = timeline_texts.as_written([progress.entry])
    return {
        "entry": entry,
        "state": progress.state,
        "armed_s": progress.armed_s,
        "count": progress.count,
        "has_come": progress.has_come,
        "fired_s": progress.fired_s,
        "request": progress.request,
        "problem": progress.problem,
    }


def _read(document: dict[str, Any]) -> EntryProgress:
    entry = timeline_texts.entry_of(**document.pop("entry"))
    return EntryProgress(entry, EntryState(document.pop("state")), **document)
