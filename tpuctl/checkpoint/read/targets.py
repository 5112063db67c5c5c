"""Where a checkpoint is read to: the needed boxes of each leaf, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tpuctl.checkpoint.arrays.array_tree import (
    LEAVES,
    VALUES,
    Structure,
    Tree,
    child_nodes,
    children,
    is_value,
    leaf_paths,
    path_of,
    walk,
)
from tpuctl.checkpoint.arrays.boxes import Box
from tpuctl.checkpoint.arrays.dtypes import Array, raw_dtype
from tpuctl.checkpoint.arrays.leaf_types import expect_leaf
from tpuctl.checkpoint.arrays.leaves import ExpectedLeaf
from tpuctl.checkpoint.arrays.numpy_arrays import whole_array
from tpuctl.checkpoint.format.commit_schema import Leaf
from tpuctl.errors import UsageError

_HINT = "tpuctl checkpoint describe shows what the checkpoint holds"
_SEQUENCES: Mapping[str, type] = {"list": list, "tuple": tuple}


@dataclass(frozen=True)
class ReadTarget:
    """The boxes of a leaf that this worker needs, and how the leaf is made of them."""

    boxes: tuple[Box, ...]
    dtype: np.dtype[Any]
    """To read into: `dtypes.raw_dtype` of the leaf, where four bits have a byte to themselves."""
    finish: Callable[[Sequence[Array]], object] = field(repr=False)
    """The leaf out of an array for each box, in their order, which become its own."""


def read_targets(
    structure: Structure, leaves: Sequence[Leaf], like: Tree = None
) -> list[ReadTarget]:
    """A target for each leaf, in their order. Without `like`: all of it, as numpy has it.

    A leaf below a name that a dict of `like` has not is left out: its target has no boxes. Raises
    UsageError, with the path, where `like` is another tree than the checkpoint's.
    """
    if like is None:
        saved = [(node, leaves[node.index]) for node in walk(structure)]
        expected = [
            (node.index, whole_array(leaf.dtype, leaf.shape, is_scalar=node.is_scalar))
            for node, leaf in saved
        ]
    else:
        matched = _match(structure, like, ())
        expected = [
            (number, _as_in_like(leaves[number], each, path)) for number, each, path in matched
        ]
    found = [ReadTarget((), raw_dtype(leaf.dtype), _leave_out) for leaf in leaves]
    for number, leaf in expected:
        found[number] = ReadTarget(leaf.boxes, raw_dtype(leaf.dtype), leaf.finish)
    return found


def left_out_paths(structure: Structure, targets: Sequence[ReadTarget]) -> tuple[str, ...]:
    """The paths of the leaves that are not read, in the order of their numbers."""
    return tuple(
        path
        for path, target in zip(leaf_paths(structure), targets, strict=True)
        if target.finish is _leave_out
    )


def _leave_out(_arrays: Sequence[Array]) -> None:
    """Nothing in place of a leaf that no part of `like` names."""


def _as_in_like(leaf: Leaf, like: Tree, path: str) -> ExpectedLeaf:
    try:
        expected = expect_leaf(like, leaf.dtype)
    except UsageError as error:
        raise UsageError(f"{path}: {error}", hint=error.hint) from error
    if (expected.dtype, expected.shape) != (leaf.dtype, leaf.shape):
        raise _mismatch_error(
            path,
            f"{leaf.dtype} of shape {leaf.shape}",
            f"{expected.dtype} of shape {expected.shape}",
        )
    return expected


def _match(
    structure: Structure, like: Tree, names: tuple[str, ...]
) -> Iterator[tuple[int, Tree, str]]:
    """Each leaf's number, what `like` has in its place, and its path."""
    ((kind, value),) = structure.items()
    path = path_of(names)
    if kind in LEAVES:
        yield value, like, path
    elif kind in VALUES:
        if not is_value(like):
            raise _mismatch_error(path, f"the value {VALUES[kind][1](value)!r}", _type_text(like))
    else:
        entries = _entries(kind, like)
        if entries is None:
            raise _mismatch_error(path, f"a {kind}", _type_text(like))
        nodes: dict[str, Structure] = dict(child_nodes(kind, value))
        _check_names(path, nodes, entries, is_part=kind == "dict" and bool(entries))
        for name, node in nodes.items():
            if name in entries:
                yield from _match(node, entries[name], (*names, name))


def _entries(kind: str, like: Tree) -> Mapping[str, Tree] | None:
    if kind == "dict":
        return children(like)
    if isinstance(like, list | tuple) and type(like) is _SEQUENCES[kind]:
        return {str(index): each for index, each in enumerate(like)}
    return None


def _check_names(
    path: str, stored: Mapping[str, object], like: Mapping[str, object], *, is_part: bool
) -> None:
    """Raise for a name that only one side has; with `is_part`, only for one of `like`."""
    for names, where, lacking in (
        (set() if is_part else stored.keys() - like.keys(), "the checkpoint", "like"),
        (like.keys() - stored.keys(), "like", "the checkpoint"),
    ):
        if names:
            first, *others = sorted(names)
            more = f" and {len(others)} more" if others else ""
            raise UsageError(f"{path}: {where} has {first!r}{more}, {lacking} has not", hint=_HINT)


def _mismatch_error(path: str, stored: str, like: str) -> UsageError:
    return UsageError(f"{path}: the checkpoint has {stored}, like has {like}", hint=_HINT)


def _type_text(like: Tree) -> str:
    return f"a {type(like).__name__}"
