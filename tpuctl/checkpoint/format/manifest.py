"""COMMIT and the small records beside it: canonical JSON that carries its own checksum.

    {"crc32c":"yZRlqg==","record":{...}}

No other spelling of the same record is accepted, so that every changed bit is noticed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from tpuctl.checkpoint.arrays.array_tree import Structure
from tpuctl.checkpoint.format import record_validation
from tpuctl.checkpoint.format.commit_schema import (
    Commit,
    DoneRecord,
    Leaf,
    commit_of,
    document,
    done_of,
)
from tpuctl.checkpoint.format.layout import SCHEMA
from tpuctl.errors import IntegrityError, PreconditionError
from tpuctl.store import crc32c

R = TypeVar("R", Commit, DoneRecord)

_SENSELESS = (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError)


def encode(record: Mapping[str, Any]) -> bytes:
    """The canonical bytes of a record, with schema and checksum added."""
    return _with_checksum(_canonical({**record, "schema": SCHEMA}))


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
    if type(record.get("schema")) is not int or record["schema"] != SCHEMA:
        raise PreconditionError(
            f"the checkpoint has schema {record.get('schema')}, this tpuctl reads {SCHEMA}",
            hint="it takes the tpuctl that wrote it",
        )
    return dict(record)


def encode_commit(commit: Commit) -> bytes:
    """The canonical bytes of COMMIT."""
    return encode(document(commit))


def decode_commit(data: bytes) -> Commit:
    """Read COMMIT; IntegrityError unless it is exactly what was written, and makes sense."""
    return _decode_checked(data, commit_of, record_validation.check_commit)


def encode_done(done: DoneRecord) -> bytes:
    """The canonical bytes of a done record."""
    return encode(document(done))


def decode_done(data: bytes) -> DoneRecord:
    """Read a done record; IntegrityError unless it is exactly what was written."""
    return _decode_checked(data, done_of, record_validation.check_done)


def tree_digest(structure: Structure, leaves: Iterable[Leaf]) -> str:
    """The CRC-32C of a tree's names, dtypes and shapes: equal on all workers that save the same."""
    described = [[leaf.dtype, list(leaf.shape)] for leaf in leaves]
    return crc32c(_canonical({"leaves": described, "tree": structure}))


def _decode_checked(
    data: bytes, read: Callable[[Mapping[str, Any]], R], check: Callable[[R], None]
) -> R:
    record = decode(data)
    try:
        found = read(record)
        check(found)
    except _SENSELESS as error:
        raise IntegrityError(f"the manifest makes no sense: {error}") from error
    return found


def _with_checksum(body: bytes) -> bytes:
    return b'{"crc32c":"%s","record":%s}' % (crc32c(body).encode("ascii"), body)


def _canonical(value: object) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")
