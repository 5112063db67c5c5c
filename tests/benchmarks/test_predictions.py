"""How many matrix products are predicted in a second: `pytest -m benchmark -s`.

Cited beside it: SCALE-Sim 3.0.0, 128 x 128, weight-stationary, took 30 s and 1.0 GB for the cycles
of one 1024 x 1024 x 1024, 10 minutes for 2048 x 2048 x 2048. It is not run here.
"""

import time

import numpy as np
import pytest

from benchmarks.measure import keep
from tpuctl.perfmodel import chip

pytestmark = pytest.mark.benchmark

ROUNDS = 9
SHAPES = 200_000
ALONE = 2_000


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_predictions_per_second(dtype):
    m, k, n = np.random.default_rng(8).integers(1, 8_192, (3, SHAPES))

    def together():
        chip.matmul("v5e", m, k, n, dtype=dtype)

    def one_by_one():
        for index in range(ALONE):
            chip.matmul("v5e", int(m[index]), int(k[index]), int(n[index]), dtype=dtype)

    vectorized, scalars = [], []
    for _ in range(ROUNDS):
        vectorized.append(SHAPES / seconds(together))
        scalars.append(ALONE / seconds(one_by_one))
    keep(
        f"predictions of matmuls, {dtype}",
        "500,000 a second, vectorized",
        vectorized_per_s=vectorized,
        one_by_one_per_s=scalars,
    )


def seconds(run) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
