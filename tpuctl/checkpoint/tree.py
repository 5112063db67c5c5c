"""A tree of arrays becomes a structure in JSON and a list of leaves, and back.

{"w": a, "b": [c]}  ->  {"dict": {"b": {"list": [{"array": 0}]}, "w": {"array": 1}}}, [c, a]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpuctl.errors import UsageError

Tree = Any
Structure = dict[str, Any]
Array = NDArray[Any]

_INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
DTYPES = frozenset({"bool", "float16", "float32", "float64"} | _INTEGERS)
_CONTAINERS = {"list": list, "tuple": tuple}


def flatten(tree: Tree) -> tuple[Structure, list[Array]]:
    """The structure of a tree and its leaves, dicts in the order of their keys."""
    leaves: list[Array] = []
    return _structure(tree, "", leaves), leaves


def unflatten(structure: Structure, leaves: Sequence[Array]) -> Tree:
    """The tree of a structure, its leaves taken by their number."""
    (kind, value), *_ = structure.items()
    if kind == "dict":
        return {key: unflatten(below, leaves) for key, below in value.items()}
    if kind in _CONTAINERS:
        return _CONTAINERS[kind](unflatten(below, leaves) for below in value)
    return leaves[value][()] if kind == "scalar" else leaves[value]


def leaf_indices(structure: Structure) -> Iterator[int]:
    """The numbers of the leaves of a structure, as they come; ValueError when it is none."""
    if not isinstance(structure, dict) or len(structure) != 1:
        raise ValueError("a node of the structure has not exactly one kind")
    ((kind, value),) = structure.items()
    if kind in ("array", "scalar") and type(value) is int:
        yield value
    elif kind == "dict" and isinstance(value, dict):
        for below in value.values():
            yield from leaf_indices(below)
    elif kind in _CONTAINERS and isinstance(value, list):
        for below in value:
            yield from leaf_indices(below)
    else:
        raise ValueError(f"unknown kind of node {kind!r}")


def _structure(tree: Tree, path: str, leaves: list[Array]) -> Structure:
    if type(tree) is dict:
        if not all(type(key) is str for key in tree):
            raise UsageError(f"the keys of {path or 'the tree'} must be strings")
        return {
            "dict": {key: _structure(tree[key], f"{path}/{key}", leaves) for key in sorted(tree)}
        }
    for kind, container in _CONTAINERS.items():
        if type(tree) is container:
            below = enumerate(tree)
            return {kind: [_structure(each, f"{path}/{index}", leaves) for index, each in below]}
    return _leaf(tree, path, leaves)


def _leaf(value: object, path: str, leaves: list[Array]) -> Structure:
    if not isinstance(value, np.ndarray | np.generic):
        raise UsageError(
            f"cannot save {path or 'the tree'}: a {type(value).__name__} is no numpy array",
            hint="a tree is made of dicts, lists, tuples, numpy arrays and numpy scalars",
        )
    if value.dtype.name not in DTYPES:
        raise UsageError(f"cannot save {path or 'the tree'}: dtype {value.dtype} is not supported")
    leaves.append(np.asarray(value))
    return {"array" if isinstance(value, np.ndarray) else "scalar": len(leaves) - 1}
