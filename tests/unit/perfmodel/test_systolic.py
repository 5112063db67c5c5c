"""Cycles of a systolic array: SCALE-Sim's figures, Google's, and an array played cycle by cycle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl import catalog
from tpuctl.perfmodel import chip
from tpuctl.perfmodel.chip import calibration
from unit.perfmodel import systolic

SIDES = st.integers(min_value=1, max_value=5_000)


@pytest.mark.parametrize(
    ("side", "cycles"), [(256, 2_551), (1024, 89_983), (2048, 622_079), (4096, 4_585_471)]
)
def test_scale_sim_s_count_of_a_weight_stationary_array(side, cycles):
    """SCALE-Sim 3.0.0, 128 x 128, weight-stationary: its compute cycles."""
    assert systolic.cycles(side, side, side, 128, overlap=False) == cycles


def test_a_layer_of_600_takes_nine_tiles_of_the_first_tpu():
    """Jouppi et al., ISCA 2017: 9 steps on 256 x 256."""
    steps = (systolic.cycles(600, 600, 600, 256, overlap=True) - (2 * 256 - 2)) / 600
    assert steps == 9


def play(left, right):
    """Load one tile of weights, stream the rows through it, count until the last sum is out.

    A row enters element by element, each a cycle after the one to its left; sums move down.
    """
    (rows, side), width = left.shape, right.shape[1]
    cycle, result = side, np.full((rows, width), np.nan)  # one row of weights a cycle
    moving_right, moving_down = np.zeros((side, width)), np.zeros((side + 1, width))
    for tick in range(rows + side + width):
        entering = [left[tick - r, r] if 0 <= tick - r < rows else 0.0 for r in range(side)]
        moving_right = np.column_stack([entering, moving_right[:, :-1]])
        moving_down[1:] = moving_down[:-1] + moving_right * right
        for column in range(width):
            row = tick - column - (side - 1)
            if 0 <= row < rows:
                result[row, column] = moving_down[side, column]
        cycle += 1
        if not np.isnan(result).any():
            break
    return result, cycle


@pytest.mark.parametrize(("rows", "side"), [(1, 1), (1, 4), (5, 3), (9, 4), (2, 6)])
def test_one_tile_takes_as_long_as_an_array_that_is_played(rows, side):
    rng = np.random.default_rng(rows)
    left, right = rng.integers(-9, 9, (rows, side)), rng.integers(-9, 9, (side, side))
    product, cycles = play(left, right)
    assert (product == left @ right).all()
    # SCALE-Sim tells the number of the last cycle, and counts from 0.
    assert systolic.cycles(rows, side, side, side, overlap=False) == cycles - 1


@given(SIDES, SIDES, SIDES, st.sampled_from([128, 256]))
def test_overlap_never_takes_longer(m, k, n, side):
    with_overlap = systolic.cycles(m, k, n, side, overlap=True)
    assert with_overlap <= systolic.cycles(m, k, n, side, overlap=False)


@pytest.mark.parametrize("generation", ["v4", "v5e"])
def test_the_time_on_the_mxus_is_that_of_their_cycles_with_overlap(generation):
    """Their clocks are public; draining the array once is all that the closed form leaves out."""
    figures, fitted = catalog.generation(generation).chip, calibration.constants(generation)
    compute_s = chip.matmul(generation, 4096, 4096, 4096).terms["compute"]
    cycles = systolic.cycles(4096, 4096, 4096, figures.mxu_side, overlap=True)
    cycles_s = cycles / (figures.tensorcores * figures.mxus_per_tensorcore * figures.clock_hz)
    assert compute_s * fitted.compute_efficiency == pytest.approx(cycles_s, rel=3e-3)


def test_arrays_of_shapes_broadcast():
    found = systolic.cycles(np.array([[256], [1024]]), [256, 1024], 256, 128, overlap=False)
    assert found.shape == (2, 2)
    assert found[0, 0] == 2_551


def test_an_empty_side_is_refused():
    with pytest.raises(ValueError, match="a side is below 1: 8, 0, 8"):
        systolic.cycles(8, 0, 8, 128, overlap=True)
