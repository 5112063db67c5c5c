"""Copies of steps: files that are not the generations that COMMIT names, but of the same bytes.

A store gives a new generation to whatever is copied into it, so a copy proves nothing before its
bytes were read. Who has read all of them remembers the generations that they have here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.format.commit_schema import Commit
from tpuctl.checkpoint.format.manifest import decode, encode
from tpuctl.checkpoint.format.record_cache import RecordCache, read_record
from tpuctl.errors import IntegrityError, NotFoundError, PreconditionError
from tpuctl.store import Entry, Store

REASON = "copied: nobody has read its bytes here"


def with_generations_here(commit: Commit, listed: Mapping[str, Entry]) -> Commit:
    """COMMIT with the generations that its files have in a listing, by key.

    Returns the same object when these are the generations that were committed.
    """
    if all(each.generation == listed[each.path].generation for each in commit.objects):
        return commit
    here = (replace(each, generation=listed[each.path].generation) for each in commit.objects)
    return replace(commit, objects=tuple(here))


def is_verified(
    store: Store, records: RecordCache, committed: Entry, commit: Commit, entries: Sequence[Entry]
) -> bool:
    """Whether somebody has read the files of a copy in the generations that `commit` has here.

    `committed` is its COMMIT, `entries` are the objects of the step.
    """
    key = layout.verified_key(commit.step, committed.generation)
    entry = next((each for each in entries if each.key == key), None)
    if entry is None:
        return False
    try:
        return records.read(store, entry, decode).get("generations") == _generations(commit)
    except (NotFoundError, IntegrityError):
        return False


def remember_verified(store: Store, committed: Entry, commit: Commit) -> None:
    """Put the record that all files of a copy were read and are right in these generations.

    It is of this generation of COMMIT and of these generations of the files: when anything is
    copied once more, it says nothing.
    """
    key = layout.verified_key(commit.step, committed.generation)
    record = encode({"step": commit.step, "generations": _generations(commit)})
    there = store.head(key)
    with contextlib.suppress(NotFoundError, IntegrityError):
        if there is not None and read_record(store, there, bytes) == record:
            return
    with contextlib.suppress(PreconditionError):  # somebody else has read it at the same time
        store.put_if_generation(key, record, 0 if there is None else there.generation)


def _generations(commit: Commit) -> list[int]:
    """One for each file, in the order in which COMMIT names them."""
    return [each.generation for each in commit.objects]
