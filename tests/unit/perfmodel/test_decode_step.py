"""Seconds a token of a batch of requests: terms, arrays and the order of what is asked."""

import numpy as np
import pytest

from tpuctl.perfmodel.workload.decode_step import decode_step
from tpuctl.perfmodel.workload.known_models import known_transformer
from tpuctl.perfmodel.workload.parallelism import Parallelism
from tpuctl.perfmodel.workload.prefill import prefill
from tpuctl.perfmodel.workload.serving_run import ServingRun
from tpuctl.perfmodel.workload.slice_hardware import slice_hardware

HARDWARE = slice_hardware("v6e", "2x4")
MODEL = known_transformer("llama-3-70b")


def run_of(requests=64, prompt=1000, output=1000, **other) -> ServingRun:
    return ServingRun(requests, prompt, output, Parallelism(tensor=8), **other)


@pytest.mark.parametrize("modelled", [decode_step, prefill])
def test_the_terms_add_up_to_the_value_and_the_interval_holds_it(modelled) -> None:
    estimate = modelled(HARDWARE, MODEL, run_of())

    assert sum(estimate.terms.values()) == pytest.approx(estimate.value_s)
    assert estimate.low_s < estimate.value_s < estimate.high_s
    assert estimate.terms[estimate.bound] == max(estimate.terms.values())


def test_arrays_are_answered_as_each_number_is() -> None:
    requests, tensor = np.array([1, 64, 128]), np.array([8, 8, 4])
    run = ServingRun(requests, 1000, 1000, Parallelism(tensor=tensor))

    together = decode_step(HARDWARE, MODEL, run)

    for i in range(3):
        ways = Parallelism(tensor=int(tensor[i]))
        alone = decode_step(HARDWARE, MODEL, ServingRun(int(requests[i]), 1000, 1000, ways))
        assert together.value_s[i] == pytest.approx(alone.value_s)
        assert together.bound[i] == alone.bound


def test_a_token_takes_longer_beside_prompts_that_are_read() -> None:
    alone = decode_step(HARDWARE, MODEL, run_of(prefills_per_step=0))
    loop = decode_step(HARDWARE, MODEL, run_of())

    assert alone.terms["prefill"] == 0
    assert loop.value_s > alone.value_s
