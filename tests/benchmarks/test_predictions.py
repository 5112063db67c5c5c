"""How many matrix products, and how many training plans, are predicted in a second.

`pytest -m benchmark -s`.

Cited beside it: SCALE-Sim 3.0.0, 128 x 128, weight-stationary, took 30 s and 1.0 GB for the cycles
of one 1024 x 1024 x 1024, 10 minutes for 2048 x 2048 x 2048. It is not run here.
"""

import time

import numpy as np
import pytest

from benchmarks.measure import keep
from tpuctl.perfmodel import chip
from tpuctl.perfmodel.workload.known_models import known_transformer
from tpuctl.perfmodel.workload.parallelism import Parallelism
from tpuctl.perfmodel.workload.slice_hardware import slice_hardware
from tpuctl.perfmodel.workload.train_run import TrainRun
from tpuctl.perfmodel.workload.training.train_step import train_step

pytestmark = pytest.mark.benchmark

ROUNDS = 9
SHAPES = 200_000
ALONE = 2_000
PLANS = 100_000
PLANS_ALONE = 200


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


@pytest.mark.parametrize("model", ["llama-3-70b", "deepseek-v3"])
def test_training_plans_per_second(model):
    hardware, shape = slice_hardware("v5p", "8x8x8"), known_transformer(model)
    tensor = 2 ** np.random.default_rng(8).integers(0, 5, PLANS)
    many = TrainRun(1024, 8192, Parallelism(fsdp=512 // tensor, tensor=tensor))
    one = TrainRun(1024, 8192, Parallelism(fsdp=128, tensor=4))

    def one_by_one():
        for _ in range(PLANS_ALONE):
            train_step(hardware, shape, one)

    vectorized, scalars = [], []
    for _ in range(ROUNDS):
        vectorized.append(PLANS / seconds(lambda: train_step(hardware, shape, many)))
        scalars.append(1000 * seconds(one_by_one) / PLANS_ALONE)
    keep(
        f"training plans of {model}",
        "100,000 a second, vectorized; 1 ms for one",
        vectorized_per_s=vectorized,
        one_ms=scalars,
    )


def seconds(run) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
