"""The small records of a checkpoint directory; each generation is read and decoded once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, TypeVar

from tpuctl.checkpoint.format.commit_schema import Commit
from tpuctl.checkpoint.format.manifest import decode_commit_head
from tpuctl.errors import IntegrityError
from tpuctl.store import Entry, Store

T = TypeVar("T")

_HEAD_BYTES = 64 * 1024
"""Enough for the head of a COMMIT of 250 files; a longer one is read again with more."""


class RecordCache:
    """Records by key and generation, which never change; any number of threads may use it.

    Of a COMMIT the head is read and kept: a program that runs for weeks needs no million parts in
    memory that only a reader of arrays asks for.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self._known: dict[tuple[str, int], Any] = {}

    def read(self, store: Store, entry: Entry, decode: Callable[[bytes], T]) -> T:
        """The record of a listed object.

        Raises NotFoundError when that generation is gone, IntegrityError when it is damaged.
        """
        known: T | None = self._known.get((entry.key, entry.generation))
        return self.add(entry, read_record(store, entry, decode)) if known is None else known

    def read_commit(self, store: Store, entry: Entry) -> Commit:
        """The COMMIT of a listed object, without its tree and leaves. Raises as `read`."""
        known: Commit | None = self._known.get((entry.key, entry.generation))
        return self.add(entry, read_commit_head(store, entry)) if known is None else known

    def add(self, entry: Entry, record: T) -> T:
        """Remember a record that was just written and read back; returns it as it is kept."""
        known: Any = record
        if isinstance(record, Commit):
            known = replace(record, leaves=(), tree={"none": 0})
        self._known[entry.key, entry.generation] = known
        remembered: T = known
        return remembered

    def forget_all_but(self, entries: Collection[Entry]) -> None:
        """Forget the records of objects that are not among `entries`."""
        there = {(entry.key, entry.generation) for entry in entries}
        known = list(self._known.items())
        self._known = {found: each for found, each in known if found in there}


def read_record(store: Store, entry: Entry, decode: Callable[[bytes], T]) -> T:
    """Read and decode a listed object, without a cache.

    Raises NotFoundError when that generation is gone, IntegrityError when it is damaged.
    """
    try:
        return decode(store.get_range(entry.key, generation=entry.generation))
    except IntegrityError:
        # Bytes damaged on the way are right the second time; those damaged at rest are not.
        return decode(store.get_range(entry.key, generation=entry.generation))


def read_commit_head(store: Store, entry: Entry) -> Commit:
    """COMMIT without its tree and leaves: a small part of it is read. Raises as `read_record`."""
    try:
        return _commit_head(store, entry)
    except IntegrityError:
        return _commit_head(store, entry)


def _commit_head(store: Store, entry: Entry) -> Commit:
    head_bytes = _HEAD_BYTES
    while True:
        end = head_bytes if head_bytes < entry.size_bytes else None  # all of it is verified
        data = store.get_range(entry.key, 0, end, generation=entry.generation)
        commit = decode_commit_head(data, entry.size_bytes)
        if commit is not None:
            return commit
        head_bytes *= 8
