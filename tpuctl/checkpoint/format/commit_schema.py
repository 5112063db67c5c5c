"""The fields of COMMIT and of a worker's done record, and their JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpuctl.checkpoint.arrays.boxes import Box
from tpuctl.checkpoint.format import layout, shard_file
from tpuctl.store import Entry

BLOCK_BYTES = 8 * 1024 * 1024
"""A reader verifies so many bytes at a time, and reads no fewer."""
FILE_BYTES = 128 * 1024 * 1024
"""A worker's parts go into files of at most about this size: several are sent at once."""


@dataclass(frozen=True)
class StoredObject:
    """One generation of one file of a worker; its path is relative to the checkpoint directory."""

    path: str
    size_bytes: int
    generation: int
    crc32c: str
    blocks: str
    """The CRC-32C of each block, four bytes big-endian one after the other, in base64."""
    digests: str = ""
    """The SHA-256 of each block, one after the other, in base64; "" where none was asked for."""


@dataclass(frozen=True, slots=True)
class Part:
    """A box of a leaf and where it is stored: the object, and its first byte there."""

    object: int
    start: int
    box: Box


@dataclass(frozen=True)
class Leaf:
    """An array of the tree: dtype, global shape, sharding, and the parts it is stored in."""

    dtype: str
    shape: tuple[int, ...]
    sharding: Mapping[str, Any] | None
    """How the program that wrote it had it lie; for people only."""
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class DoneRecord:
    """What a worker puts when all its files of a step are in the store."""

    worker: int
    worker_count: int
    save: str
    """The id of this save by this worker, as in the header of each of its files."""
    round: int
    """How often this process had begun to save the step before: what it tries again is new."""
    digest: str
    """The CRC-32C of the structure with dtypes and shapes: every worker saved the same tree."""
    blocked_ms: int
    """For how long `save` kept the program waiting."""
    objects: tuple[StoredObject, ...]
    parts: tuple[tuple[int, Part], ...]
    """The number of the leaf, and the part; `object` counts this worker's objects."""


@dataclass(frozen=True)
class Commit:
    """The manifest of a step: docs/checkpoint-format.md has its fields."""

    step: int
    fence: int
    parent: int
    origin: int
    """From which step the run went on that wrote it, -1 for none: as in its ROLLBACK."""
    origin_fence: int
    """The fence of that step's COMMIT, -1 for none."""
    worker_count: int
    job: str
    attempt: int
    """0: not known."""
    program: str
    writer: str
    created: str
    save_ms: int
    """From the call of `save` until COMMIT was to be written, of worker 0."""
    blocked_ms: int
    """The longest that `save` kept a worker's program waiting."""
    block_bytes: int
    tree: Mapping[str, Any]
    leaves: tuple[Leaf, ...]
    objects: tuple[StoredObject, ...]
    saves: tuple[str, ...] = ()
    """The save id of each worker, in the order of their numbers; empty in a COMMIT without them."""

    @property
    def size_bytes(self) -> int:
        """The size of all its objects together."""
        return sum(each.size_bytes for each in self.objects)

    def identity(self, stored: StoredObject) -> Mapping[str, str] | None:
        """The metadata that the header of a file has; None in a COMMIT without save ids."""
        name = layout.parse_key(stored.path)
        if name is None or not self.saves:
            return None
        return shard_file.identity(self.saves[name.worker_id], stored.path)


def is_version_of(stored: StoredObject, entry: Entry) -> bool:
    """Whether a listed object is the one that was committed: size, generation and CRC-32C."""
    return stored.generation == entry.generation and is_like(stored, entry)


def is_like(stored: StoredObject, entry: Entry) -> bool:
    """Whether a listed object has the size and the CRC-32C of the one that was committed.

    The listing of a directory may not know a CRC-32C: that is not a difference.
    """
    found = (entry.key, entry.size_bytes, entry.crc32c or stored.crc32c)
    return (stored.path, stored.size_bytes, stored.crc32c) == found


def parts_by_object(leaves: Sequence[Leaf]) -> dict[int, list[tuple[int, Part]]]:
    """For each object its parts and the numbers of their leaves, in the order of their bytes."""
    placed: dict[int, list[tuple[int, Part]]] = defaultdict(list)
    for number, leaf in enumerate(leaves):
        for part in leaf.parts:
            placed[part.object].append((number, part))
    for parts in placed.values():
        parts.sort(key=lambda each: (each[1].start, each[1].box.size))
    return placed


def document(record: Commit | DoneRecord) -> dict[str, Any]:
    """The JSON of a record; a part's box becomes its offset and shape."""
    found = {**vars(record), "objects": [vars(stored) for stored in record.objects]}
    if isinstance(record, Commit):
        found["leaves"] = [
            {**vars(leaf), "parts": [_flat(part) for part in leaf.parts]} for leaf in record.leaves
        ]
    else:
        found["parts"] = [{"leaf": leaf, **_flat(part)} for leaf, part in record.parts]
    return found


def commit_of(record: Mapping[str, Any]) -> Commit:
    """The COMMIT in a JSON document; KeyError, TypeError or ValueError when it is none."""
    fields, boxes = _fields(record), dict[str, Box]()
    saves = tuple(fields.pop("saves", ()))
    leaves = tuple(
        Leaf(
            each["dtype"],
            tuple(each["shape"]),
            each["sharding"],
            tuple(_part(part, boxes) for part in each["parts"]),
        )
        for each in fields.pop("leaves")
    )
    return Commit(**fields, leaves=leaves, saves=saves)


def done_of(record: Mapping[str, Any]) -> DoneRecord:
    """The done record in a JSON document; KeyError, TypeError or ValueError when it is none."""
    fields, boxes = _fields(record), dict[str, Box]()
    parts = tuple((each["leaf"], _part(each, boxes)) for each in fields.pop("parts"))
    return DoneRecord(**fields, parts=parts)


def _fields(record: Mapping[str, Any]) -> dict[str, Any]:
    objects = tuple(StoredObject(**each) for each in record["objects"])
    return {key: value for key, value in record.items() if key != "schema"} | {"objects": objects}


def _flat(part: Part) -> dict[str, Any]:
    box = part.box
    return {"object": part.object, "start": part.start, "offset": box.offset, "shape": box.shape}


def _part(part: Mapping[str, Any], boxes: dict[str, Box]) -> Part:
    return Part(part["object"], part["start"], _box(part, boxes))


def _box(part: Mapping[str, Any], boxes: dict[str, Box]) -> Box:
    """One for all parts that say the same: a mesh cuts thousands of leaves alike."""
    offset, shape = part["offset"], part["shape"]
    said = f"{offset}{shape}"  # of 1 and true, which are equal, one is not a number
    box = boxes.get(said)
    if box is None:
        box = boxes[said] = Box(tuple(offset), tuple(shape))
    return box
