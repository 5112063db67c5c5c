"""What the chips give to a collective, and what they get: one entry for each own chip.

An entry is an array, a Buffer, or a list of such that are sent together. What chips get are arrays
that cannot be written: the chips of a worker may have them in common. They are never the memory
that was given.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localsim.core.chip.buffers import Buffer
from localsim.core.chip.operands import packed_bytes
from localsim.core.collectives.sums import Arrays

_WHOLE = "biu"
_NUMBERS = "biufV"
"""Kinds of dtype; formats that numpy does not know are V."""


@dataclass(frozen=True, slots=True)
class Entries:
    """What the own chips give: arrays of the same shapes and dtypes on each, by chip.

    `example` are the arrays of one chip, `words` their types as all workers write them, and
    `size_bytes` what they take on the chip.
    """

    arrays: Mapping[int, Arrays]
    example: Arrays
    words: str
    size_bytes: int
    is_list: bool

    def kinds(self) -> Iterator[tuple[Any, list[int]]]:
        """Yield each dtype in which arrays are added, with the numbers of those arrays."""
        kinds = [_sum_dtype(array.dtype) for array in self.example]
        for kind in dict.fromkeys(kinds):
            yield kind, [number for number, other in enumerate(kinds) if other == kind]

    def alone(self) -> dict[int, Arrays]:
        """The sums by own chip where each group is one chip: its arrays in the sum's dtype."""
        return {
            chip: [array.astype(_sum_dtype(array.dtype)) for array in own]
            for chip, own in self.arrays.items()
        }

    def check_dim(self, dim: int, *, parts: int = 1) -> None:
        """Check that all arrays have an axis that falls into equal parts; raises ValueError."""
        for array in self.example:
            if not -array.ndim <= dim < array.ndim:
                raise ValueError(f"an array of shape {array.shape} has no axis {dim}")
            if array.shape[dim] % parts:
                raise ValueError(
                    f"axis {dim} of an array of shape {array.shape} has not {parts} equal parts"
                )

    def back(self, got: Mapping[int, Arrays]) -> list[Any]:
        """What each own chip got, in the form in which it was given, and not to be written."""
        for arrays in got.values():
            for array in arrays:
                array.flags.writeable = False
        return [list(got[chip]) if self.is_list else got[chip][0] for chip in self.arrays]


def read_entries(by_chip: Sequence[Any], chips: range, *, adds: bool = False) -> Entries:
    """Read what the own chips give to be moved or, with `adds`, to be added.

    Raises ValueError unless all chips give arrays of the same shapes and dtypes.
    """
    if len(by_chip) != len(chips):
        raise ValueError(f"{len(chips)} chips, but arrays of {len(by_chip)}")
    is_list = isinstance(by_chip[0], list | tuple)
    given = [list(own) if isinstance(own, list | tuple) else [own] for own in by_chip]
    held = [[item if isinstance(item, Buffer) else _array(item) for item in own] for own in given]
    kinds = {tuple((array.shape, array.dtype) for array in own) for own in held}
    words = sorted(map(_words, kinds))
    if len(words) > 1:
        raise ValueError(f"the chips give different arrays: {' and '.join(words)}")
    take = _summand if adds else _bits
    arrays = {chip: list(map(take, own)) for chip, own in zip(chips, held, strict=True)}
    size_bytes = sum(map(packed_bytes, held[0]))
    return Entries(arrays, arrays[chips[0]], words[0], size_bytes, is_list)


def split_parts(arrays: Arrays, count: int, dim: int) -> list[Arrays]:
    """The parts of all arrays along `dim`, by place; a single part is the arrays as they are."""
    if count == 1:
        return [arrays]
    return list(zip(*(np.split(array, count, dim) for array in arrays), strict=True))


def join_parts(by_place: Sequence[Arrays], dim: int) -> list[NDArray[Any]]:
    """The arrays of all places, each joined along `dim`."""
    return [np.concatenate(parts, axis=dim) for parts in zip(*by_place, strict=True)]


def cut_vector(vector: NDArray[Any], shapes: Sequence[tuple[int, ...]]) -> list[NDArray[Any]]:
    """The arrays of these shapes that lie in a vector one after the other."""
    ends = [0, *accumulate(map(prod, shapes))]
    return [
        vector[start:end].reshape(shape)
        for (start, end), shape in zip(pairwise(ends), shapes, strict=True)
    ]


def _sum_dtype(dtype: np.dtype[Any]) -> Any:
    """The dtype of a sum: int32 of whole numbers, float32 of others."""
    return np.int32 if dtype.kind in _WHOLE else np.float32


def _array(given: Any) -> NDArray[Any]:
    array = np.asarray(given)
    if array.dtype.kind not in _NUMBERS or array.dtype.hasobject:
        raise ValueError(f"chips have no arrays of {array.dtype}")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _bits(held: NDArray[Any] | Buffer) -> NDArray[Any]:
    return held.values if isinstance(held, Buffer) else held


def _summand(held: NDArray[Any] | Buffer) -> NDArray[Any]:
    """The numbers to add; raises ValueError for whole ones that a chip's int32 does not hold."""
    array = np.asarray(held)
    if array.dtype.kind in _WHOLE and not np.can_cast(array.dtype, np.int32) and array.size:
        least, most = np.iinfo(np.int32).min, np.iinfo(np.int32).max
        if array.min() < least or array.max() > most:
            raise ValueError(f"whole numbers are added in int32, which does not hold {array.max()}")
    return array


@lru_cache(1024)
def _words(kinds: tuple[tuple[tuple[int, ...], np.dtype[Any] | str], ...]) -> str:
    return ", ".join(
        f"{getattr(dtype, 'name', dtype)}[{','.join(map(str, shape))}]" for shape, dtype in kinds
    )
