"""COMMIT and the small records beside it: canonical JSON that carries its own checksum.

    {"crc32c":"yZRlqg==","record":{...}}

No other spelling of the same record is accepted, so that every changed bit is noticed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tpuctl.checkpoint.layout import SCHEMA
from tpuctl.checkpoint.split import Leaf, Part
from tpuctl.checkpoint.tree import DTYPES, Structure, leaf_indices
from tpuctl.errors import IntegrityError, PreconditionError
from tpuctl.store import Entry, crc32c


@dataclass(frozen=True)
class StoredObject:
    """One version of one shard, its path below the checkpoint directory."""

    path: str
    size_bytes: int
    generation: int
    crc32c: str

    @classmethod
    def of(cls, entry: Entry) -> StoredObject:
        """As a store describes it."""
        return cls(entry.key, entry.size_bytes, entry.generation, entry.crc32c)


@dataclass(frozen=True)
class Commit:
    """What a step consists of."""

    step: int
    fence: int
    parent: int
    worker_count: int
    created: str
    tree: Structure
    leaves: tuple[Leaf, ...]
    objects: tuple[StoredObject, ...]

    @property
    def size_bytes(self) -> int:
        """All its objects together."""
        return sum(each.size_bytes for each in self.objects)

    def encode(self) -> bytes:
        """The bytes of COMMIT."""
        return encode(asdict(self))

    @classmethod
    def decode(cls, data: bytes) -> Commit:
        """Read COMMIT; IntegrityError unless it is exactly what was written."""
        record = decode(data)
        try:
            fields = {**record, "leaves": _leaves(record), "objects": _objects(record)}
            del fields["schema"]
            commit = cls(**fields)
            _check(commit)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise IntegrityError(f"the manifest makes no sense: {error}") from error
        return commit


def encode(record: Mapping[str, Any]) -> bytes:
    """Canonical bytes of a record, with the schema and the checksum added."""
    body = _canonical({**record, "schema": SCHEMA})
    return _canonical({"crc32c": crc32c(body), "record": json.loads(body)})


def decode(data: bytes) -> dict[str, Any]:
    """The record; IntegrityError when a byte differs, PreconditionError when it is newer."""
    try:
        document = json.loads(data)
        record: dict[str, Any] = document["record"]
        is_whole = (
            isinstance(record, dict)
            and document["crc32c"] == crc32c(_canonical(record))
            and _canonical(document) == data
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise IntegrityError("the record is not what was written: it cannot be read") from error
    if not is_whole:
        raise IntegrityError("the record is not what was written: its crc32c differs")
    if record.get("schema") != SCHEMA:
        raise PreconditionError(
            f"the checkpoint has schema {record.get('schema')}, this tpuctl reads {SCHEMA}",
            hint="install the tpuctl that wrote it, or a later one",
        )
    return record


def _canonical(value: object) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def _leaves(record: Mapping[str, Any]) -> tuple[Leaf, ...]:
    return tuple(
        Leaf(leaf["dtype"], tuple(leaf["shape"]), tuple(_part(each) for each in leaf["parts"]))
        for leaf in record["leaves"]
    )


def _part(part: Mapping[str, Any]) -> Part:
    return Part(part["shard"], tuple(part["offset"]), tuple(part["shape"]))


def _objects(record: Mapping[str, Any]) -> tuple[StoredObject, ...]:
    return tuple(StoredObject(**each) for each in record["objects"])


def _check(commit: Commit) -> None:
    if sorted(leaf_indices(commit.tree)) != list(range(len(commit.leaves))):
        raise ValueError("the tree does not name each leaf once")
    for leaf in commit.leaves:
        if leaf.dtype not in DTYPES:
            raise ValueError(f"unknown dtype {leaf.dtype!r}")
        for part in leaf.parts:
            commit.objects[part.shard]
            if len(part.box) != len(leaf.shape):
                raise ValueError("a part has not the axes of its leaf")
