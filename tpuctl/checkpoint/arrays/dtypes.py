"""The dtypes of a checkpoint: their bits, their names in a file, and their bytes as stored."""

from __future__ import annotations

import functools
import importlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpuctl.errors import UsageError

Array = NDArray[Any]

_ALIGNMENT_BYTES = 64
"""XLA's on a CPU: an array of JAX can then be the memory of one of numpy (measured, jax 0.10.2)."""


@dataclass(frozen=True)
class Dtype:
    """A dtype that can be saved: the bits of an element, and how safetensors and numpy name it."""

    bits: int
    safetensors: str | None
    """Its name in a safetensors file; None where its loader of 2024 (0.4.3) has none, which could
    not open a file with that at all: bytes are stored, on one axis."""
    is_foreign: bool = False
    """Whether numpy has it only with ml_dtypes."""


_WITHOUT_NAME = ("e4m3fnuz", "e5m2fnuz", "e4m3b11fnuz", "e3m4", "e4m3", "e8m0fnu")
"""The formats of float8 that safetensors has no name for."""
DTYPES = {
    "bool": Dtype(8, "BOOL"),
    **{f"int{bits}": Dtype(bits, f"I{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": Dtype(bits, f"U{bits}") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": Dtype(bits, f"F{bits}") for bits in (16, 32, 64)},
    "complex64": Dtype(64, None),
    "bfloat16": Dtype(16, "BF16", is_foreign=True),
    "float8_e4m3fn": Dtype(8, "F8_E4M3", is_foreign=True),
    "float8_e5m2": Dtype(8, "F8_E5M2", is_foreign=True),
    **{f"float8_{name}": Dtype(8, None, is_foreign=True) for name in _WITHOUT_NAME},
    **{name: Dtype(4, None, is_foreign=True) for name in ("int4", "uint4")},
}
"""Every dtype that can be saved, by the name that numpy and ml_dtypes give it."""


@functools.lru_cache
def name_of(dtype: np.dtype[Any]) -> str:
    """The name in DTYPES of a dtype of numpy, of any byte order; UsageError when it has none."""
    if dtype.name not in DTYPES:
        raise UsageError(
            f"dtype {dtype} cannot be saved", hint=f"these can: {', '.join(sorted(DTYPES))}"
        )
    return dtype.name


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The dtype of numpy for a name in DTYPES.

    Raises UsageError when it needs ml_dtypes and that is not installed.
    """
    if not DTYPES[name].is_foreign:
        return np.dtype(name)
    try:
        found: np.dtype[Any] = np.dtype(getattr(importlib.import_module("ml_dtypes"), name))
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"numpy has no {name} of its own", hint="pip install --upgrade ml_dtypes"
        ) from error
    return found


@functools.lru_cache
def raw_dtype(name: str) -> np.dtype[Any]:
    """A dtype that numpy itself has, with the same bits for each element, little-endian.

    An element of four bits has a byte to itself, in its low half.
    """
    dtype = DTYPES[name]
    return np.dtype(f"<u{max(1, dtype.bits // 8)}" if dtype.is_foreign else name).newbyteorder("<")


def allocate_aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array without content, at an address that JAX can take over without a copy."""
    length = math.prod(shape) * dtype.itemsize
    room = np.empty(length + _ALIGNMENT_BYTES, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT_BYTES
    return room[start : start + length].view(dtype).reshape(shape)


def raw_view(array: Array) -> Array:
    """The same elements, not copied, as `raw_dtype` has them; strides and byte order stay."""
    name = name_of(array.dtype)
    return array.view(raw_dtype(name)) if DTYPES[name].is_foreign else array


def size_bytes(name: str, elements: int) -> int:
    """The number of bytes that `count` elements of a dtype take where they are stored."""
    return (elements * DTYPES[name].bits + 7) // 8


def write_into(buffer: NDArray[np.uint8], name: str, array: Array) -> None:
    """Copy the elements of a raw array into `size_bytes` bytes of memory, as they are stored."""
    if DTYPES[name].bits < 8:
        buffer[:] = pack(array)
    else:
        # One pass whatever the strides and the order of the bytes of the source.
        np.copyto(buffer.view(raw_dtype(name)).reshape(array.shape), array, casting="equiv")


def pack(array: Array) -> NDArray[np.uint8]:
    """Put elements of four bits, one a byte, two into a byte; an odd last one is filled with 0."""
    flat = raw_view(array).reshape(-1)
    packed = np.zeros((flat.size + 1) // 2, np.uint8)
    np.bitwise_and(flat[0::2], 15, out=packed)
    packed[: flat.size // 2] |= flat[1::2] << 4
    return packed


def unpack(packed: NDArray[np.uint8], elements: int) -> NDArray[np.uint8]:
    """The first `count` elements that `pack` put together, one a byte."""
    flat = np.empty(packed.size * 2, np.uint8)
    np.bitwise_and(packed, 15, out=flat[0::2])
    np.right_shift(packed, 4, out=flat[1::2])
    return flat[:elements]
