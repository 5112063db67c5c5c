"""What the chip adds to its matrix unit: memory, counters, the model of each new shape."""

import statistics
import time
from itertools import count

import numpy as np
import pytest

from benchmarks.measure import keep
from localsim.core import Chip
from localsim.core.chip import costs, mxu

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(300)]

ROUNDS = 9
CALLS = 200


def test_what_a_call_costs_beside_its_arithmetic():
    chip = Chip("v5e")
    small, large = (np.ones((side, side), np.float32) for side in (8, 1024))
    rows = count(1)
    found = {"unit_us": [], "chip_us": [], "model_us": [], "matmul_us": []}
    for round_number in range(ROUNDS + 1):
        times = {
            # A small product has next to no arithmetic.
            "unit_us": each_of(CALLS, lambda: mxu.matmul(small, small)),
            "chip_us": each_of(CALLS, lambda: chip.matmul(small, small)),
            "model_us": each_of(
                CALLS, lambda: costs.matmul_cost("v5e", (1, next(rows), 8, 8), "f32", 0)
            ),
            "matmul_us": each_of(5, lambda: mxu.matmul(large, large)),
        }
        if round_number:
            for name, took_us in times.items():
                found[name].append(took_us)
    medians = {name: statistics.median(times) for name, times in found.items()}
    added_us = medians["chip_us"] - medians["unit_us"]
    keep(
        "counters and model beside a bf16 matmul of 1024",
        "at most 0.02 of it",
        ratio=round(added_us / medians["matmul_us"], 5),
        ratio_of_a_new_shape=round((added_us + medians["model_us"]) / medians["matmul_us"], 5),
        **found,
    )


def each_of(calls, operation):
    """Microseconds of one call."""
    began = time.perf_counter()
    for _ in range(calls):
        operation()
    return (time.perf_counter() - began) / calls * 1e6
