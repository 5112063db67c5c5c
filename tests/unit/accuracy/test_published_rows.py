"""The carried measurements say what their sources print, and the fit finds what made a row."""

from dataclasses import replace

import numpy as np
import pytest

from tpuctl.perfmodel.chip.calibration import Constants
from unit.accuracy import accuracy_scores, constant_fit, naive_models, power_check, published_rows
from unit.accuracy.published_rows import Table
from unit.accuracy.simplex import smallest


def row(name: str, use: str, index: int) -> Table:
    (found,) = (one for one in published_rows.tables() if one.name == name)
    return found.of_use(use).select(np.array([index]))


def test_a_product_on_tpu7x_is_of_one_core() -> None:
    one = row("gemm_tpu7x", "fitted", 3)

    assert one.labels() == ["16384 x 16384 x 16384"]
    assert 2 * 16384**3 / one.measured_s[0] == pytest.approx(950.1286983e12, rel=1e-5)
    assert one.chip.bf16_flops == pytest.approx(1153.5e12)
    assert one.chip.hbm_bytes_per_s == pytest.approx(3690e9)


def test_a_copy_is_read_and_written() -> None:
    one = row("memory_tpu7x", "held_out", 0)

    moved = 2 * one.columns["size_bytes"][0] / one.measured_s[0]

    assert moved == pytest.approx(2249.746091e9, rel=1e-5)


def test_an_all_gather_on_tpu7x_is_of_both_cores_of_a_chip() -> None:
    one = row("collective_tpu7x", "fitted", 4)

    received = one.columns["size_bytes"][0] * 3 / 4

    assert received / one.measured_s[0] == pytest.approx(178.7714158e9, rel=1e-5)


def test_an_all_reduce_on_v6e_has_the_published_rate() -> None:
    one = row("collective_v6e", "fitted", 0)

    rate = 2 * 255 / 256 * one.columns["size_bytes"][0] / one.measured_s[0]

    assert rate == pytest.approx(235.7595345e9, rel=1e-4)


def test_a_prefetched_operand_is_no_traffic_of_the_kernel() -> None:
    work = published_rows.work_of(row("gemm_v4_random", "fitted", 0))

    assert (work.m, work.k, work.n) == (113, 35, 46)
    assert work.hbm_bytes == 2 * (35 * 46 + 113 * 46)


def test_the_incumbents_formula_gives_what_its_authors_printed() -> None:
    (table,) = (one for one in published_rows.tables() if one.name == "gemm_v4_random")

    ours = naive_models.scale_sim_formula(table)

    assert ours == pytest.approx(table.columns["scale_sim"] * 1e-6, rel=5e-3)


def test_the_fit_finds_the_constants_that_made_the_rows() -> None:
    made = Constants(
        launch_s=1.3e-6,
        compute_efficiency=0.7,
        memory_efficiency=0.6,
        conversion_bytes_per_s=None,
        reconverted_rows=128,
        pinned_compute_efficiency=0.85,
        collective_step_s=2e-6,
        ici_efficiency=0.5,
        dcn_efficiency=0.4,
        dma_launch_s=4e-7,
    )
    rows = [
        replace(one, columns=one.columns | {"measured": one.predicted_s(made) * 1e6})
        for one in published_rows.tables()
        if one.generation == "tpu7x"
    ]

    found = constant_fit.constants("tpu7x", constant_fit.fit(rows))

    for name in ("launch_s", "compute_efficiency", "memory_efficiency", "ici_efficiency"):
        assert getattr(found, name) == pytest.approx(getattr(made, name), rel=2e-3)


def test_the_simplex_finds_the_lowest_point_of_a_valley() -> None:
    lowest = smallest(lambda at: (at[0] - 1) ** 2 + 30 * (at[1] - at[0] ** 2) ** 2, np.zeros(2))

    assert lowest == pytest.approx([1, 1], abs=1e-3)


def test_errors_are_of_what_was_measured() -> None:
    found = accuracy_scores.score(np.array([2.0, 5.0, 9.0]), np.array([1.0, 10.0, 10.0]))

    assert found.rows == 3
    assert (found.median, found.bias) == pytest.approx((50, -10))
    assert found.p90 == pytest.approx(90)


def test_what_has_no_prediction_is_not_scored() -> None:
    assert accuracy_scores.score(np.array([np.nan]), np.array([1.0])) is None


@pytest.mark.parametrize(
    "one", power_check.rows(), ids=lambda one: f"{one['generation']} {one['state']}"
)
def test_a_published_power_is_what_the_model_draws_at_some_load(one) -> None:
    least, most = power_check.drawn(one["generation"], 0), power_check.drawn(one["generation"], 1)

    assert least.low <= one["watts"] <= most.high
