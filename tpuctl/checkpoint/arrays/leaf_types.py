"""The kinds of leaves; those of a library are asked only when the program has imported it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

from tpuctl.checkpoint.arrays import numpy_arrays, sharded_arrays
from tpuctl.checkpoint.arrays.leaves import ExpectedLeaf, LeafValue
from tpuctl.errors import UsageError

_LIBRARIES = {"jax": "jax_arrays", "torch": "torch_tensors"}
"""A leaf of theirs can be there only when they are imported; they are never imported for that."""


def describe_leaf(value: object, index: int) -> LeafValue:
    """Describe leaf `index` of a tree; UsageError when the value cannot be saved."""
    for kind in _kinds():
        found: LeafValue | None = kind.describe(value, index)
        if found is not None:
            return found
    raise UsageError(
        f"a {type(value).__name__} cannot be saved",
        hint="a tree is of dicts, lists, tuples; arrays of numpy, JAX, torch (on the host); "
        "numbers, text, None",
    )


def expect_leaf(like: object, dtype: str) -> ExpectedLeaf:
    """Say how a leaf of that dtype is to be read back; UsageError when `like` is not an array."""
    for kind in _kinds():
        found: ExpectedLeaf | None = kind.expect(like, dtype)
        if found is not None:
            return found
    raise UsageError(f"the checkpoint has an array, like has a {type(like).__name__}")


def _kinds() -> Iterator[Any]:
    yield numpy_arrays
    yield sharded_arrays
    for library, module in _LIBRARIES.items():
        if library in sys.modules:
            yield importlib.import_module(f"tpuctl.checkpoint.arrays.{module}")
