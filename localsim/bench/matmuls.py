"""Matrix products of one chip: shapes from where the launch decides to where the MXU does."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localsim.bench.stopwatch import ResultRow, comparison_row, median_s
from localsim.core import Chip
from localsim.core.chip import backends
from localsim.core.numbers.fp8 import encode_fp8
from tpuctl.perfmodel import chip as model

Shape = tuple[int, int, int]
SHAPES: Sequence[Shape] = (
    (256, 256, 256),
    (512, 512, 512),
    (8, 4096, 4096),
    (1000, 1000, 1000),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (3292, 3434, 1966),
    (4096, 4096, 4096),
)
"""m, k, n, the least work first: squares, a few rows of a decoder, and sides that fill no tile."""
DTYPES: Mapping[str, str] = {"bf16": "bf16", "int8": "int8", "e4m3": "fp8"}
"""What a chip is told -> what the model calls it."""


def matmul_rows(
    generation: str, is_over: Callable[[], bool], shapes: Sequence[Shape] = SHAPES
) -> Iterator[ResultRow]:
    """Yield a row for every shape (m, k, n) and dtype, until `is_over()`."""
    for shape in shapes:
        for dtype in DTYPES:
            if is_over():
                return
            yield matmul_row(generation, dtype, shape)


def matmul_row(generation: str, dtype: str, shape: Shape) -> ResultRow:
    """Time one product of (m, k, n), with the rounding of its operands and the counters."""
    m, k, n = shape
    chip = Chip(generation)
    left, right = _operand(dtype, (m, k)), _operand(dtype, (k, n))
    measured_s = median_s(lambda: chip.matmul(left, right, dtype=dtype))
    operations = 2 * m * k * n
    calls = chip.counters.flops // operations
    hbm_bytes = chip.counters.hbm_bytes // calls  # the result is float32; the model's own is not
    modelled = model.matmul(generation, m, k, n, dtype=DTYPES[dtype], hbm_bytes=hbm_bytes)
    return {
        "dtype": dtype,
        "m": m,
        "k": k,
        "n": n,
        "backend": backends.backend_of((m, k), (k, n)),
        **comparison_row(measured_s, modelled, operations, "ops"),
    }


def _operand(dtype: str, shape: tuple[int, int]) -> NDArray[Any]:
    random = np.random.default_rng(0)
    if dtype == "int8":
        return random.integers(-128, 128, shape, np.int8)
    values = random.standard_normal(shape, np.float32)
    return values if dtype == "bf16" else encode_fp8(values, dtype)
