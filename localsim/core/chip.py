"""One chip: every operation computes its real result and adds what it would have cost."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from localsim.core import mxu
from localsim.core.numerics import F32
from tpuctl.perfmodel import chip as model

_BF16_BYTES = 2
_F32_BYTES = 4


@dataclass(frozen=True, slots=True)
class Counters:
    """What was done since the chip was switched on; seconds are modelled, never measured."""

    flops: int = 0
    hbm_bytes: int = 0
    ici_bytes: int = 0
    mxu_busy_s: float = 0.0
    modelled_s: float = 0.0

    def __add__(self, other: "Counters") -> Self:
        return type(self)(*(a + b for a, b in zip(_values(self), _values(other), strict=True)))

    def __sub__(self, other: "Counters") -> Self:
        return type(self)(*(a - b for a, b in zip(_values(self), _values(other), strict=True)))


class Chip:
    """A chip of a generation of the catalog."""

    def __init__(self, generation: str) -> None:
        """Switched on, its counters at nothing."""
        self.generation = generation
        self.counters = Counters()
        self._greatest_bytes = 0

    def matmul(self, left: NDArray[Any], right: NDArray[Any]) -> F32:
        """[m, k] x [k, n] with bfloat16 operands and a float32 result."""
        (m, k), n = left.shape, right.shape[1]
        self.charge(_matmul_cost(self.generation, m, k, n))
        return mxu.matmul(left, right)

    def elementwise(self, function: Callable[..., NDArray[Any]], *arrays: NDArray[Any]) -> F32:
        """A function of the vector unit; as on the chip, the traffic to memory is its cost."""
        result: F32 = np.asarray(function(*arrays), np.float32)
        self.charge_traffic(_F32_BYTES * (sum(array.size for array in arrays) + result.size))
        return result

    def charge_traffic(self, size_bytes: int) -> None:
        """Add the cost of reading or writing that many bytes of memory."""
        self.charge(_traffic_cost(self.generation, size_bytes))

    def charge(self, cost: Counters) -> None:
        """Add the cost of something that was done for this chip elsewhere."""
        self.counters += cost
        self._greatest_bytes = max(self._greatest_bytes, cost.hbm_bytes)

    def take_greatest_bytes(self) -> int:
        """The memory of the operation that took most of it since this was asked last."""
        taken, self._greatest_bytes = self._greatest_bytes, 0
        return taken


@lru_cache(maxsize=1024)
def _matmul_cost(generation: str, m: int, k: int, n: int) -> Counters:
    estimate = model.matmul(generation, m, k, n)
    return Counters(
        flops=2 * m * k * n,
        hbm_bytes=_BF16_BYTES * (m * k + k * n) + _F32_BYTES * m * n,
        mxu_busy_s=estimate.terms["compute"],
        modelled_s=estimate.value_s,
    )


@lru_cache(maxsize=1024)
def _traffic_cost(generation: str, size_bytes: int) -> Counters:
    # A copy reads and writes each byte; these bytes are each read or written.
    estimate = model.copy(generation, size_bytes // 2)
    return Counters(hbm_bytes=size_bytes, modelled_s=estimate.value_s)


def _values(counters: Counters) -> list[Any]:
    return [getattr(counters, field.name) for field in fields(counters)]
