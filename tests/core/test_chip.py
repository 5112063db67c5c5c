"""A chip computes, and says what it would have cost."""

import numpy as np
import pytest

from localsim.core import Chip, Counters
from tpuctl.catalog import UnknownError
from tpuctl.perfmodel import chip as model


def test_a_matmul_is_computed_and_counted():
    chip = Chip("v5e")
    product = chip.matmul(np.ones((8, 128)), np.full((128, 256), 2))
    assert product.dtype == np.float32
    assert np.array_equal(product, np.full((8, 256), 256))
    estimate = model.matmul("v5e", 8, 128, 256)
    assert chip.counters == Counters(
        flops=2 * 8 * 128 * 256,
        hbm_bytes=2 * (8 * 128 + 128 * 256) + 4 * 8 * 256,
        mxu_busy_s=estimate.terms["compute"],
        modelled_s=estimate.value_s,
    )


def test_an_elementwise_operation_costs_its_traffic():
    chip = Chip("v5e")
    total = chip.elementwise(np.add, np.ones(1000, np.float32), np.ones(1000, np.float32))
    assert np.array_equal(total, np.full(1000, 2))
    assert (chip.counters.hbm_bytes, chip.counters.flops) == (12_000, 0)
    assert chip.counters.modelled_s == model.copy("v5e", 6_000).value_s


def test_counters_add_up_and_a_difference_is_what_was_done_between():
    chip = Chip("v5e")
    chip.matmul(np.ones((8, 8)), np.ones((8, 8)))
    before = chip.counters
    chip.matmul(np.ones((8, 8)), np.ones((8, 8)))
    assert chip.counters - before == before
    assert before + before == chip.counters


def test_shapes_that_do_not_fit_are_refused_before_they_cost():
    chip = Chip("v5e")
    with pytest.raises(ValueError, match="mismatch"):
        chip.matmul(np.ones((2, 3)), np.ones((4, 5)))


def test_there_is_no_chip_of_an_unknown_generation():
    with pytest.raises(UnknownError):
        Chip("v99").matmul(np.ones((1, 1)), np.ones((1, 1)))
