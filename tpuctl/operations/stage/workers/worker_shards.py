"""Which part of the objects a worker gets."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shard(items: Sequence[T], index: int, count: int, *, name: Callable[[T], str]) -> list[T]:
    """Part `index` of `count`: every count-th item in the order of names, from the index-th on.

    The parts are disjoint, together they are everything, and they depend on the names alone; the
    sizes of two differ by at most one item. `Dataset.shard` of tf.data divides in the same way.
    """
    return sorted(items, key=name)[index::count]
