"""COMMIT and the small records beside it: canonical JSON that carries its own checksum.

    {"crc32c":"yZRlqg==","record":{...}}

No other spelling of the same record is accepted, so that every changed bit is noticed. COMMIT has
two lines: such a record, its head, and the arrays, which the head names by size and checksum. A
list of steps reads the heads alone: a model may have ten thousand arrays.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from tpuctl.checkpoint.arrays.array_tree import Structure, walk
from tpuctl.checkpoint.arrays.coverage import covers
from tpuctl.checkpoint.arrays.dtypes import DTYPES, size_bytes
from tpuctl.checkpoint.format import layout, shard_file
from tpuctl.checkpoint.format.commit_schema import (
    Commit,
    DoneRecord,
    Leaf,
    StoredObject,
    commit_of,
    document,
    done_of,
    parts_by_object,
)
from tpuctl.errors import IntegrityError, PreconditionError
from tpuctl.store import crc32c

R = TypeVar("R", Commit, DoneRecord)

_COMMIT_COUNTS = ("step", "fence", "worker_count", "attempt", "save_ms", "blocked_ms")
_LARGEST = 2**63 - 1
"""A size, an offset, a time in nanoseconds: numpy and other languages hold no more."""
_COMMIT_TEXTS = ("job", "program", "writer", "created")
_NO_ARRAYS: Mapping[str, Any] = {"leaves": (), "tree": {"none": 0}}
"""The second line of COMMIT, as it is in a COMMIT of which the head alone was read."""
_NEWLINE = b"\n"
_SENSELESS = (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError)


def encode(record: Mapping[str, Any]) -> bytes:
    """The canonical bytes of a record, with schema and checksum added."""
    return _with_checksum(_canonical({**record, "schema": layout.SCHEMA}))


def decode(data: bytes) -> dict[str, Any]:
    """The record in `data`.

    Raises IntegrityError when a byte differs, PreconditionError for another schema.
    """
    try:
        record = json.loads(data)["record"]
        is_whole = isinstance(record, dict) and _with_checksum(_canonical(record)) == data
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise IntegrityError("the record is not what was written: it cannot be read") from error
    if not is_whole:
        raise IntegrityError("the record is not what was written: its crc32c differs")
    if type(record.get("schema")) is not int or record["schema"] != layout.SCHEMA:
        raise PreconditionError(
            f"the checkpoint has schema {record.get('schema')}, this tpuctl reads {layout.SCHEMA}",
            hint="use the version of tpuctl that wrote it",
        )
    return dict(record)


def encode_commit(commit: Commit) -> bytes:
    """The canonical bytes of COMMIT."""
    fields = document(commit)
    arrays = _canonical({name: fields.pop(name) for name in _NO_ARRAYS})
    return encode({**fields, "arrays": _measure(arrays)}) + _NEWLINE + arrays


def decode_commit(data: bytes) -> Commit:
    """Read COMMIT; IntegrityError unless it is exactly what was written, and makes sense."""
    head, newline, arrays = data.partition(_NEWLINE)
    record = decode(head)
    if not newline and "arrays" not in record:  # as it was written before COMMIT had two lines
        return _checked(lambda: commit_of(record), _check_commit)
    _check_arrays(record, arrays)
    return _checked(lambda: commit_of(_join(record, json.loads(arrays))), _check_commit)


def decode_commit_head(data: bytes, size_bytes: int) -> Commit | None:
    """COMMIT without its tree and leaves, from its first bytes; `size_bytes` is how long it is.

    None when `data` ends before the head does. Of the arrays what is in `data` is checked when it
    is all of them. Raises IntegrityError as `decode_commit`.
    """
    head, newline, arrays = data.partition(_NEWLINE)
    if not newline:
        whole = decode_commit(data) if len(data) == size_bytes else None
        return whole and replace(whole, leaves=(), tree=_NO_ARRAYS["tree"])
    record = decode(head)
    _check_arrays(record, arrays if len(data) == size_bytes else None, size_bytes - len(head) - 1)
    return _checked(lambda: commit_of(_join(record, _NO_ARRAYS)), _check_head)


def encode_done(done: DoneRecord) -> bytes:
    """The canonical bytes of a done record."""
    return encode(document(done))


def decode_done(data: bytes) -> DoneRecord:
    """Read a done record; IntegrityError unless it is exactly what was written."""
    record = decode(data)
    return _checked(lambda: done_of(record), _check_done)


def tree_digest(structure: Structure, leaves: Iterable[Leaf]) -> str:
    """The CRC-32C of a tree's names, dtypes and shapes: equal on all workers that save the same."""
    described = [[leaf.dtype, list(leaf.shape)] for leaf in leaves]
    return crc32c(_canonical({"leaves": described, "tree": structure}))


def _measure(arrays: bytes) -> dict[str, Any]:
    return {"crc32c": crc32c(arrays), "size_bytes": len(arrays)}


def _check_arrays(
    record: Mapping[str, Any], arrays: bytes | None, size_bytes: int | None = None
) -> None:
    """Raise unless the second line of COMMIT is as its head says; None: only its size is known."""
    named = record.get("arrays")
    if arrays is None:
        is_right = isinstance(named, dict) and named.get("size_bytes") == size_bytes
    else:
        is_right = named == _measure(arrays)
    if not is_right:
        raise IntegrityError("the record is not what was written: its arrays differ")


def _join(head: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {**{name: value for name, value in head.items() if name != "arrays"}, **arrays}


def _checked(read: Callable[[], R], check: Callable[[R], None]) -> R:
    try:
        found = read()
        check(found)
    except _SENSELESS as error:
        raise IntegrityError(f"the manifest is not valid: {error}") from error
    return found


def _with_checksum(body: bytes) -> bytes:
    return b'{"crc32c":"%s","record":%s}' % (crc32c(body).encode("ascii"), body)


def _canonical(value: object) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def _check_commit(commit: Commit) -> None:
    """Raise unless COMMIT describes a whole checkpoint: a reader relies on all that it says."""
    _check_head(commit)
    if sorted(leaf.index for leaf in walk(commit.tree)) != list(range(len(commit.leaves))):
        raise ValueError("the tree does not name each leaf exactly once")
    for number, leaf in enumerate(commit.leaves):
        _check_leaf(number, leaf)
    _check_bytes(commit)


def _check_head(commit: Commit) -> None:
    """Raise unless all of COMMIT but its arrays makes sense."""
    _check_counts(*(getattr(commit, name) for name in _COMMIT_COUNTS))
    _check_counts(commit.parent + 1, commit.origin + 1, commit.block_bytes - 1)
    for name in _COMMIT_TEXTS:
        if not isinstance(getattr(commit, name), str):
            raise TypeError(f"{name} is not text")
    if commit.step > layout.LAST_STEP or commit.fence > layout.LAST_FENCE:
        raise ValueError(f"step {commit.step} of fence {commit.fence} cannot be named")
    _check_saves(commit)
    for stored in commit.objects:
        _check_object(stored, commit)


def _check_saves(commit: Commit) -> None:
    if commit.saves and len(commit.saves) != commit.worker_count:
        raise ValueError(f"there are {len(commit.saves)} save ids, not one for each worker")
    for save in commit.saves:
        _check_save_id(save)


def _check_save_id(save: object) -> None:
    if not isinstance(save, str) or not shard_file.SAVE_ID.fullmatch(save):
        raise ValueError(f"{save!r:.40} is not a save id")


def _check_done(done: DoneRecord) -> None:
    """Raise unless a done record has all that COMMIT is made of."""
    _check_counts(done.worker, done.worker_count, done.round, done.blocked_ms)
    _check_save_id(done.save)
    for leaf, part in done.parts:
        _check_counts(leaf, part.object, part.start, *part.box.offset, *part.box.shape)
        if part.object >= len(done.objects):
            raise ValueError("a part is in no object")


def _check_leaf(number: int, leaf: Leaf) -> None:
    if leaf.dtype not in DTYPES:
        raise ValueError(f"unknown dtype {leaf.dtype!r}")
    _check_counts(*leaf.shape)
    for part in leaf.parts:
        _check_counts(part.object, part.start, *part.box.offset, *part.box.shape)
    if not covers(leaf.shape, [part.box for part in leaf.parts]):
        raise ValueError(f"the parts of leaf {number} do not cover it, each element once")


def _check_object(stored: StoredObject, commit: Commit) -> None:
    _check_counts(stored.size_bytes, stored.generation)
    name = layout.parse_key(stored.path)
    if name is None or name.kind != layout.SHARD:
        raise ValueError(f"{stored.path!r} is not the name of a file")
    if not name.worker_id < name.worker_count == commit.worker_count:
        raise ValueError(f"{stored.path} belongs to another worker")
    if (name.step, name.fence) != (commit.step, commit.fence):
        raise ValueError(f"{stored.path} belongs to another step or run")
    count = -(-stored.size_bytes // commit.block_bytes)
    if len(base64.b64decode(stored.blocks, validate=True)) != 4 * count:
        raise ValueError(f"{stored.path} does not have {count} checksums of blocks")
    if stored.digests and len(base64.b64decode(stored.digests, validate=True)) != 32 * count:
        raise ValueError(f"{stored.path} does not have {count} digests of blocks")


def _check_bytes(commit: Commit) -> None:
    """No byte of an object is used twice, and none beyond its end."""
    for number, parts in parts_by_object(commit.leaves).items():
        spans = [
            (part.start, part.start + size_bytes(commit.leaves[leaf].dtype, part.box.size))
            for leaf, part in parts
        ]
        stored = commit.objects[number]
        if any(end > stored.size_bytes for _, end in spans):
            raise ValueError(f"a part ends after the end of {stored.path}")
        if any(start < end for (_, end), (start, _) in zip(spans, spans[1:], strict=False)):
            raise ValueError("two parts have a byte in common")


def _check_counts(*values: object) -> None:
    for value in values:
        if type(value) is not int or not 0 <= value <= _LARGEST:
            raise ValueError(f"{value!r:.40} is not a count")
