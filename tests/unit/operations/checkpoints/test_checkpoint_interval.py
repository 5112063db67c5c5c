"""How often to save: the figures of Daly's paper, and the minimum of his own cost function."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.operations.checkpoints.interval import daly_s, lost_share, young_s

MINUTE_S, HOUR_S = 60.0, 3600.0


def test_young_is_the_square_root_of_twice_the_product():
    assert young_s(5, 1000) == 100


@pytest.mark.parametrize(("mean_s", "best"), [(24 * HOUR_S, 117), (6 * HOUR_S, 57), (900, 9.1)])
def test_daly_has_the_optima_of_the_figures_3_to_5_of_his_paper(mean_s, best):
    assert daly_s(5 * MINUTE_S, mean_s) / MINUTE_S == pytest.approx(best, rel=0.006)


def test_a_save_that_costs_twice_the_mean_is_made_once_in_that_time():
    assert daly_s(20, 10) == 10


@given(
    mean_s=st.floats(60, 1e6), share=st.floats(1e-5, 0.3), restart_s=st.floats(0, 600),
    off=st.sampled_from([0.5, 0.8, 1.25, 2.0]),
)  # fmt: skip
def test_no_interval_that_is_much_shorter_or_longer_loses_less(mean_s, share, restart_s, off):
    cost_s = mean_s * share
    best_s = daly_s(cost_s, mean_s)
    assert lost_share(best_s, cost_s, mean_s, restart_s) < lost_share(
        best_s * off, cost_s, mean_s, restart_s
    )


def test_what_is_lost_is_what_is_no_progress():
    # 100 s of work and 1 s of saving, hardly ever interrupted: one part of 101.
    assert lost_share(100, 1, 1e9, 0) == pytest.approx(1 / 101, rel=1e-3)
    # Free saves that are made always: nothing is lost but the restarts.
    assert lost_share(1e-6, 0, 1000, 0) == pytest.approx(0, abs=1e-6)
    assert lost_share(1e-6, 0, 1000, 100) == pytest.approx(1 - math.exp(-0.1), rel=1e-3)


def test_an_interval_far_beyond_the_mean_loses_everything():
    assert lost_share(1e6, 1, 100, 0) == 1
