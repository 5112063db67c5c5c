"""The number formats of a chip: how many bytes each takes, and how arrays come to hold it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localsim.core.numbers.fp8 import encode_fp8
from localsim.core.numbers.numerics import bfloat16, float16, float32


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """A number format: bytes on the chip, and how an array comes to hold it, its own or another.

    Formats of one `unit` can be multiplied by each other; it is None where no matrix unit does.
    `model_dtype` is the performance model's dtype of such products.
    """

    element_bytes: int
    take: Callable[[NDArray[Any]], NDArray[Any]]
    unit: str | None
    model_dtype: str = "bf16"


def _codes(form: str) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """A function that encodes numbers in an fp8 format; uint8 is taken for codes of it already."""

    def take(values: NDArray[Any]) -> NDArray[Any]:
        return values if values.dtype == np.uint8 else encode_fp8(float32(values), form)

    return take


def _exactly(kind: type[np.generic]) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """A function that returns arrays of a type as they are, and masks as zeros and ones.

    It raises ValueError for others: whoever has another type decides how it is converted.
    """

    def take(values: NDArray[Any]) -> NDArray[Any]:
        if values.dtype == np.bool_:
            return values.astype(kind, copy=False)
        if values.dtype != kind:
            raise ValueError(f"{np.dtype(kind)} values are expected, not {values.dtype}")
        return values

    return take


FORMATS: Mapping[str, NumberFormat] = MappingProxyType(
    {
        "f32": NumberFormat(4, float32, "bf16"),
        "bf16": NumberFormat(2, bfloat16, "bf16"),
        "f16": NumberFormat(2, float16, "bf16", "f16"),
        "e4m3": NumberFormat(1, _codes("e4m3"), "fp8", "fp8"),
        "e5m2": NumberFormat(1, _codes("e5m2"), "fp8", "fp8"),
        "int8": NumberFormat(1, _exactly(np.int8), "int8", "int8"),
        "int32": NumberFormat(4, _exactly(np.int32), None),
        "pred": NumberFormat(1, _exactly(np.bool_), None),
    }
)


def format_of(dtype: str) -> NumberFormat:
    """Return the number format of a dtype; raises ValueError for one that chips do not have."""
    if dtype not in FORMATS:
        raise ValueError(f"unknown dtype {dtype!r}; one of: {', '.join(FORMATS)}")
    return FORMATS[dtype]


class ArrayType(NamedTuple):
    """What an array is, as XLA writes it: bf16[8,128]; errors say it with the note."""

    dtype: str
    shape: tuple[int, ...]
    note: str = ""

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]{self.note}"
