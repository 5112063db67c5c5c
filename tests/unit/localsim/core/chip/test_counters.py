"""Counters add up; each operation's energy is its own."""

import numpy as np
import pytest

from localsim.core import Chip, Counters
from localsim.core.chip import costs
from tpuctl.perfmodel import chip as model


def test_counters_add_up_and_a_difference_is_what_was_done_between():
    once = Counters(2, 30, 4, 0.5, 0.25, 1.0)
    twice = once + once
    assert twice == Counters(4, 60, 8, 1.0, 0.5, 2.0)
    assert twice - once == once
    assert sum([once, once], Counters()) == twice


def test_the_same_work_costs_the_same_each_time():
    chip = Chip("v5e")
    chip.matmul(np.ones((8, 8)), np.ones((8, 8)))
    before = chip.counters
    chip.matmul(np.ones((8, 8)), np.ones((8, 8)))
    assert chip.counters - before == before


def test_energy_is_that_of_the_products_the_bytes_and_the_time():
    done = Counters(flops=2 * 10**12, hbm_bytes=10**9, ici_bytes=10**8, modelled_s=0.01)
    estimate = model.energy(
        "v4", macs=10**12, hbm_bytes=10**9, ici_bytes=10**8, seconds=0.01, dtype="bf16"
    )
    assert costs.with_energy("v4", done).energy_j == estimate.value_j
    # v4 draws 90 W at rest: 0.9 J of these.
    assert costs.with_energy("v4", Counters(modelled_s=0.01)).energy_j == pytest.approx(0.9)


def test_int8_takes_less_energy_than_bfloat16():
    work = Counters(flops=10**12)
    assert (
        costs.with_energy("v5e", work, "int8").energy_j
        < costs.with_energy("v5e", work, "bf16").energy_j
    )


@pytest.mark.parametrize("generation", ["v2", "v3", "v4", "v5e", "v5p", "v6e", "tpu7x"])
def test_the_matrix_unit_is_never_busy_longer_than_an_operation_takes(generation):
    chip = Chip(generation)
    for side in (1, 8, 100, 512):
        before = chip.counters
        chip.matmul(np.ones((side, side)), np.ones((side, side)))
        done = chip.counters - before
        assert 0 < done.mxu_busy_s < done.modelled_s
        assert done.energy_j > 0
