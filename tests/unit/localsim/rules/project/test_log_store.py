"""Log entries: in order by time, kept once, and the oldest dropped where there are too many."""

import sqlite3
from contextlib import closing

import pytest

from localsim.rules.project import log_store
from localsim.rules.project.log_store import EntryKey, LogStore, StoredEntry


@pytest.fixture
def store():
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        yield LogStore(connection)


def entry(second: int, body: bytes = b"x") -> StoredEntry:
    return StoredEntry(EntryKey(f"2027-01-15T12:00:{second:02d}.000000000Z", "id", "log"), body)


def seconds(store: LogStore) -> list[int]:
    return [int(found.key.timestamp[17:19]) for found in store.part(None, newest_first=False)]


def test_entries_are_listed_by_time_from_a_key_on(store):
    store.add([entry(2), entry(0), entry(1)])
    store.add([entry(1, b"sent twice")])
    assert [each.body for each in store.part(None, newest_first=False)] == [b"x"] * 3
    (last,) = store.part(entry(1).key, newest_first=False)
    assert last == entry(2)
    assert store.part(entry(1).key, newest_first=True) == [entry(0)]


def test_the_oldest_go_where_there_are_too_many(store, monkeypatch):
    monkeypatch.setattr(log_store, "MOST_ENTRIES", 10)
    store.add([entry(second) for second in range(8)])
    store.add([entry(second) for second in range(8, 12)])
    assert seconds(store) == list(range(3, 12))
    store.add([entry(12)])
    assert seconds(store) == list(range(3, 13))


def test_the_oldest_go_where_they_are_too_large(store, monkeypatch):
    monkeypatch.setattr(log_store, "MOST_BYTES", 100)
    store.add([entry(second, b"x" * 30) for second in range(3)])
    store.add([entry(3, b"x" * 30)])
    assert seconds(store) == [1, 2, 3]
    store.clear()
    assert seconds(store) == []
