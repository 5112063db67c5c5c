"""Arithmetic on numbers and on arrays: only arrays pay numpy's price of a call."""

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

Figure: TypeAlias = Any
"""A float, or an array of float64 with one for every piece of work that was asked for."""


def figure(value: ArrayLike) -> Figure:
    """A float for a number, else an array of float64: products of sides overflow integers."""
    if isinstance(value, (int, float)):
        return float(value)
    array = np.asarray(value, np.float64)
    return array if array.ndim else float(array)


def size(value: ArrayLike, name: str = "size") -> Figure:
    """A figure that is finite and not negative; ValueError names the first that is not."""
    sizes = figure(value)
    if isinstance(sizes, float):
        wrong = [] if 0 <= sizes < math.inf else [sizes]
    else:
        wrong = sizes[~((sizes >= 0) & (sizes < math.inf))].tolist()
    if wrong:
        raise ValueError(f"not a {name}: {wrong[0]:g}")
    return sizes


def maximum(one: Figure, other: Figure) -> Figure:
    """The larger of two figures, element by element."""
    if isinstance(one, float) and isinstance(other, float):
        return max(one, other)
    return np.maximum(one, other)


def minimum(one: Figure, other: Figure) -> Figure:
    """The smaller of two figures, element by element."""
    if isinstance(one, float) and isinstance(other, float):
        return min(one, other)
    return np.minimum(one, other)


def choose(condition: Any, one: Figure, other: Figure) -> Figure:
    """`one` where the condition holds, else `other`, element by element."""
    if isinstance(condition, bool):
        return one if condition else other
    return np.where(condition, one, other)


def broadcast_terms(terms: Mapping[str, Figure], like: Figure) -> Mapping[str, Figure]:
    """The terms, each in the shape of `like`."""
    if isinstance(like, float):
        return terms
    return {name: np.broadcast_to(term, like.shape) for name, term in terms.items()}


def round_up(count: Figure, multiple: int) -> Figure:
    """The next whole multiple of `multiple`; exact for whole numbers below 2**53."""
    if isinstance(count, float):
        return float(math.ceil(count / multiple) * multiple)
    return np.ceil(count / multiple) * multiple
