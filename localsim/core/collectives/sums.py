"""The order of every sum: a binary tree over the places in a group, in aligned blocks.

The blocks are [0, 2), [2, 4), ... and [0, 4), [4, 8), ...: whoever has all of a block may add it
alone. So the bits of a sum depend on nothing but the numbers and their places.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[Any]
Arrays: TypeAlias = Sequence[NDArray[Any]]
MakeVector: TypeAlias = Callable[[], Vector]


class Block(NamedTuple):
    """The places from `start` on, `width` of them, a power of two; some may be beyond the end."""

    start: int
    width: int

    def halves(self) -> tuple["Block", "Block"]:
        """The blocks that it is the sum of."""
        half = self.width // 2
        return Block(self.start, half), Block(self.start + half, half)


def whole_block(size: int) -> Block:
    """The block of all places of a group."""
    return Block(0, 1 << (size - 1).bit_length())


@lru_cache(4096)
def owned_blocks(places: frozenset[int], size: int) -> list[Block]:
    """The greatest blocks that whoever has these places of a group can add alone."""
    return _owned(places, size, whole_block(size))


def _owned(places: frozenset[int], size: int, block: Block) -> list[Block]:
    inside = range(block.start, min(block.start + block.width, size))
    if all(place in places for place in inside):
        return [block] if inside else []
    if block.width == 1:
        return []
    return [each for half in block.halves() for each in _owned(places, size, half)]


def leaves(
    places: frozenset[int], given: Mapping[int, Arrays], make: MakeVector
) -> dict[Block, Vector]:
    """What the places give as vectors, by block; two neighbours are added at once."""
    blocks = {}
    for place in sorted(places):
        neighbour = place ^ 1
        if neighbour not in places:
            blocks[Block(place, 1)] = _laid(make(), given[place])
        elif place < neighbour:
            blocks[Block(place, 2)] = _laid(make(), given[place], given[neighbour])
    return blocks


def _laid(vector: Vector, *given: Arrays) -> Vector:
    """Fill a vector with the arrays of one place, or the sums of those of two; return it."""
    start = 0
    for arrays in zip(*given, strict=True):
        part = vector[start : start + arrays[0].size].reshape(arrays[0].shape)
        if len(arrays) == 1:
            np.copyto(part, arrays[0], casting="unsafe")
        else:
            np.add(arrays[0], arrays[1], out=part, dtype=vector.dtype, casting="unsafe")
        start += part.size
    return vector


def total(block: Block, size: int, parts: Mapping[Block, Vector]) -> Vector:
    """The sum of a block, made of the sums in `parts` and in their memory."""
    if block in parts:
        return parts[block]
    left, right = block.halves()
    if right.start >= size:
        return total(left, size, parts)
    sum_ = total(left, size, parts)
    sum_ += total(right, size, parts)
    return sum_
