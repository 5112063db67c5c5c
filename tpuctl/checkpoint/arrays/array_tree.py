"""A tree of arrays becomes a structure in JSON and a list of leaves, and back.

{"w": a, "b": [c, 7]} -> {"dict": {"b": {"list": [{"array": 0}, {"int": 7}]}, "w": {"array": 1}}}
                         [c, a]
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpuctl.checkpoint.arrays.leaf_types import describe_leaf
from tpuctl.checkpoint.arrays.leaves import LeafValue
from tpuctl.errors import UsageError

Tree = Any
Structure = Mapping[str, Any]
"""A node: one kind and its value, as docs/checkpoint-format.md says."""

LEAVES = ("array", "scalar")
_SEQUENCES: Mapping[str, Callable[[Iterator[Tree]], Tree]] = {"list": list, "tuple": tuple}
_DEEPEST = 100
"""A reader walks the structure as it walks the JSON; no model has so many levels."""
_MOST_DIGITS = 4000
"""Python reads no number of more than 4300 digits."""

_PYTHON: Mapping[type, Callable[[Any], Structure]] = {
    type(None): lambda _value: {"none": 0},
    bool: lambda value: {"bool": int(value)},
    int: lambda value: {"int": value},
    float: lambda value: {"float": value.hex()},
    str: lambda value: {"str": value},
}
"""Values of Python that need no leaf."""


def _float(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError as error:
        raise ValueError(f"{text!r} is not a float") from error


VALUES: Mapping[str, tuple[type, Callable[[Any], object]]] = {
    "none": (int, lambda _value: None),
    "bool": (int, bool),
    "int": (int, int),
    "float": (str, _float),
    "str": (str, str),
}
"""And back: what JSON has of each, and how it is read."""


@dataclass(frozen=True)
class LeafNode:
    """The place of a leaf in a structure: its number, its path, and whether it is a scalar."""

    index: int
    path: str
    is_scalar: bool


def flatten(tree: Tree) -> tuple[Structure, list[LeafValue]]:
    """Take a tree apart: its structure as JSON has it, and its leaves in the order of their names.

    Raises UsageError, with the path, for a value that cannot be saved.
    """
    leaves: list[LeafValue] = []
    return _structure(tree, (), leaves), leaves


def unflatten(structure: Structure, leaves: Sequence[object], like: Tree = None) -> Tree:
    """Build the tree of a structure out of `leaves`, which are taken by their number.

    Where `like` has another mapping or a namedtuple for a dict, it is rebuilt as that.
    """
    ((kind, value),) = structure.items()
    if kind in LEAVES:
        return leaves[value]
    if kind in VALUES:
        return VALUES[kind][1](value)
    if kind in _SEQUENCES:
        likes = like if isinstance(like, Sequence) else [None] * len(value)
        nodes = zip(value, likes, strict=True)
        return _SEQUENCES[kind](unflatten(node, leaves, each) for node, each in nodes)
    return _rebuild(value, leaves, like)


def leaf_paths(structure: Structure) -> list[str]:
    """The path of each leaf, ordered by number; raises ValueError when it is not a structure."""
    return [leaf.path for leaf in sorted(walk(structure), key=lambda leaf: leaf.index)]


def walk(structure: Structure) -> Iterator[LeafNode]:
    """Yield the leaves of a structure in order; ValueError when it is not a structure."""
    return _walk(structure, ".", "")


def path_of(names: Sequence[str]) -> str:
    """Join the names on the way to a leaf: `layers/0/w`; `.` for the root."""
    return "/".join(_escape(name) for name in names) if names else "."


def children(tree: Tree) -> Mapping[str, Tree] | None:
    """The entries of a mapping or a namedtuple by name; None for any other value."""
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return dict(zip(tree._fields, tree, strict=True))
    return tree if isinstance(tree, Mapping) else None


def is_value(tree: Tree) -> bool:
    """Whether the structure itself holds this value: None, a bool, int, float or str."""
    return type(tree) in _PYTHON


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _structure(tree: Tree, names: tuple[str, ...], leaves: list[LeafValue]) -> Structure:
    if len(names) > _DEEPEST:
        raise UsageError(f"cannot save a tree of more than {_DEEPEST} levels")
    entries = children(tree)
    if entries is not None:
        _check_names(entries, names)
        named = sorted(entries.items())
        return {"dict": {name: _structure(each, (*names, name), leaves) for name, each in named}}
    for kind, sequence in (("list", list), ("tuple", tuple)):
        if type(tree) is sequence:
            nodes = enumerate(tree)
            return {kind: [_structure(each, (*names, str(i)), leaves) for i, each in nodes]}
    if type(tree) in _PYTHON:
        return _python_value(tree, names)
    return _leaf(tree, names, leaves)


def _leaf(value: object, names: tuple[str, ...], leaves: list[LeafValue]) -> Structure:
    try:
        leaf = describe_leaf(value, len(leaves))
    except UsageError as error:
        raise UsageError(f"cannot save {path_of(names)}: {error}", hint=error.hint) from error
    leaves.append(leaf)
    return {"scalar" if leaf.is_scalar else "array": len(leaves) - 1}


def _python_value(value: Any, names: tuple[str, ...]) -> Structure:
    if type(value) is int and abs(value) >= 10**_MOST_DIGITS:
        raise UsageError(
            f"cannot save {path_of(names)}: a number of more than {_MOST_DIGITS} digits"
        )
    if type(value) is str and not _is_text(value):
        raise UsageError(f"cannot save {path_of(names)}: half a surrogate pair is not text")
    return _PYTHON[type(value)](value)


def _check_names(entries: Mapping[Any, Tree], names: tuple[str, ...]) -> None:
    for name in entries:
        if type(name) is not str or not _is_text(name):
            raise UsageError(
                f"cannot save {path_of(names)}: the key {name!r} is not text",
                hint="give each entry a name: {str(key): value for key, value in ...}",
            )


def _is_text(value: str) -> bool:
    return value.isascii() or not any("\ud800" <= each <= "\udfff" for each in value)


def _rebuild(nodes: Mapping[str, Structure], leaves: Sequence[object], like: Tree) -> Tree:
    likes = children(like) or {}
    # In the order of `like`, which may mean something to the program.
    entries = {name: unflatten(nodes[name], leaves, likes.get(name)) for name in likes or nodes}
    if isinstance(like, tuple):
        return type(like)(**entries)
    if isinstance(like, MutableMapping):
        # Some have more than entries: a defaultdict its default, a state_dict its metadata.
        rebuilt = copy.copy(like)
        rebuilt.clear()
        rebuilt.update(entries)
        return rebuilt
    return entries if like is None else type(like)(entries)


def _walk(structure: Structure, path: str, prefix: str) -> Iterator[LeafNode]:
    """`prefix`: what the paths of the nodes below begin with."""
    if not isinstance(structure, Mapping) or len(structure) != 1:
        raise ValueError("a node of the structure has not exactly one kind")
    ((kind, value),) = structure.items()
    if kind in LEAVES and type(value) is int:
        yield LeafNode(value, path, kind == "scalar")
    elif kind in VALUES and type(value) is VALUES[kind][0]:
        VALUES[kind][1](value)
    else:
        for name, node in child_nodes(kind, value):
            child = prefix + _escape(name)
            yield from _walk(node, child, f"{child}/")


def child_nodes(kind: str, value: object) -> Iterator[tuple[str, Structure]]:
    """The nodes below a dict, list or tuple with their names; ValueError for another kind."""
    if kind == "dict" and isinstance(value, Mapping):
        yield from value.items()
    elif kind in _SEQUENCES and isinstance(value, list):
        yield from ((str(index), node) for index, node in enumerate(value))
    else:
        raise ValueError(f"unknown kind of node {kind!r}")
