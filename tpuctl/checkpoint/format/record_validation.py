"""Whether a record makes sense: a reader relies on all of it, and never looks again.

Each check raises ValueError, TypeError or KeyError with what is wrong.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterable, Sequence

from tpuctl.checkpoint.arrays.array_tree import leaf_indices
from tpuctl.checkpoint.arrays.coverage import covers
from tpuctl.checkpoint.arrays.dtypes import DTYPES, size_bytes
from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.format.commit_schema import Commit, DoneRecord, Leaf, Part, StoredObject

_COMMIT_COUNTS = ("step", "fence", "worker_count", "attempt", "save_ms", "blocked_ms")
_LARGEST = 2**63 - 1
"""A size, an offset, a time in nanoseconds: numpy and other languages hold no more."""
_COMMIT_TEXTS = ("job", "program", "writer", "created")


def check_commit(commit: Commit) -> None:
    """Raise unless COMMIT describes a whole checkpoint that a reader can take apart."""
    _check_counts(*(getattr(commit, name) for name in _COMMIT_COUNTS))
    _check_counts(commit.parent + 1, commit.origin + 1, commit.block_bytes - 1)
    for name in _COMMIT_TEXTS:
        if not isinstance(getattr(commit, name), str):
            raise TypeError(f"{name} is no text")
    if commit.step > layout.LAST_STEP or commit.fence > layout.LAST_FENCE:
        raise ValueError(f"step {commit.step} of fence {commit.fence} cannot be named")
    if sorted(leaf_indices(commit.tree)) != list(range(len(commit.leaves))):
        raise ValueError("the tree does not name each leaf once")
    for stored in commit.objects:
        _check_object(stored, commit)
    for number, leaf in enumerate(commit.leaves):
        _check_leaf(number, leaf)
    dtypes = [(leaf.dtype, part) for leaf in commit.leaves for part in leaf.parts]
    _check_bytes(dtypes, commit.objects)


def check_done(done: DoneRecord) -> None:
    """Raise unless a done record has all that COMMIT is made of."""
    _check_counts(done.worker, done.worker_count, done.round, done.blocked_ms)
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
        raise ValueError(f"{stored.path!r} is the name of no file")
    if (name.step, name.fence) != (commit.step, commit.fence):
        raise ValueError(f"{stored.path} is of another step or run")
    count = -(-stored.size_bytes // commit.block_bytes)
    if len(base64.b64decode(stored.blocks, validate=True)) != 4 * count:
        raise ValueError(f"{stored.path} has not {count} checksums of blocks")


def _check_bytes(parts: Iterable[tuple[str, Part]], objects: Sequence[StoredObject]) -> None:
    """No byte of an object is used twice, and none beyond its end."""
    used: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for dtype, part in parts:
        end = part.start + size_bytes(dtype, part.box.size)
        if end > objects[part.object].size_bytes:
            raise ValueError(f"a part ends behind the end of {objects[part.object].path}")
        used[part.object].append((part.start, end))
    for ranges in used.values():
        ranges.sort()
        for (_, end), (start, _) in zip(ranges, ranges[1:], strict=False):
            if start < end:
                raise ValueError("two parts have a byte in common")


def _check_counts(*values: object) -> None:
    for value in values:
        if type(value) is not int or not 0 <= value <= _LARGEST:
            raise ValueError(f"{value!r:.40} is no count")
