"""Times a chip would take: against published measurements, and properties that always hold."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl import catalog
from tpuctl.perfmodel import chip

GENERATIONS = tuple(each.name for each in catalog.generations())
TYPES = tuple(kind.name for each in catalog.generations() for kind in each.types)
SIDES = st.integers(min_value=1, max_value=20_000)
SIZES = st.integers(min_value=0, max_value=2**40)


def is_within(estimate, measured_s):
    return estimate.low_s <= measured_s <= estimate.high_s


@pytest.mark.parametrize(
    ("side", "measured_us", "error"),
    [(128, 1.619, 0.01), (512, 2.555, 0.25), (2048, 25.291, 0.25), (16384, 9257.791, 0.01)],
)
def test_published_bf16_matmuls_of_ironwood(side, measured_us, error):
    """AI-Hypercomputer/accelerator-microbenchmarks; a core is half a chip, so m doubles."""
    estimate = chip.matmul("tpu7x", 2 * side, side, side)
    assert is_within(estimate, measured_us * 1e-6)
    assert estimate.value_s == pytest.approx(measured_us * 1e-6, rel=error)


@pytest.mark.parametrize(
    ("generation", "size_bytes", "measured_us", "error"),
    [
        ("tpu7x", 2 * 2097152, 3.041, 0.1),
        ("tpu7x", 2 * 33554432, 22.297, 0.01),
        ("tpu7x", 2 * 536870912, 335.647, 0.01),
        ("tpu7x", 2 * 8589934592, 5351.182, 0.01),
        ("v6e", 33554432, 49.359, 0.03),
    ],
)
def test_published_copies(generation, size_bytes, measured_us, error):
    """AI-Hypercomputer/accelerator-microbenchmarks; the rows of tpu7x are per core."""
    estimate = chip.copy(generation, size_bytes)
    assert is_within(estimate, measured_us * 1e-6)
    assert estimate.value_s == pytest.approx(measured_us * 1e-6, rel=error)


def test_published_all_reduce_of_a_whole_v6e_pod():
    """AI-Hypercomputer/tpu-recipes, microbenchmarks of trillium."""
    estimate = chip.all_reduce("v6e-256", 606_076_928)
    assert is_within(estimate, 5.121e-3)
    assert estimate.value_s == pytest.approx(5.121e-3, rel=0.02)


def test_the_terms_of_a_matmul():
    estimate = chip.matmul("v6e", 4096, 4096, 4096)
    assert estimate.terms == {
        "launch": 1.3e-6,
        "compute": pytest.approx(2 * 4096**3 / (0.90 * 918e12)),
        "memory": pytest.approx(3 * 2 * 4096**2 / (0.83 * 1638e9)),
    }
    assert estimate.value_s == estimate.terms["launch"] + estimate.terms["compute"]


def test_padding_is_paid_in_compute_and_not_in_memory():
    odd, whole = chip.matmul("v5e", 1, 1, 1), chip.matmul("v5e", 8, 128, 128)
    assert odd.terms["compute"] == whole.terms["compute"]
    assert odd.terms["memory"] < whole.terms["memory"]


def test_an_irregular_shape_may_fall_off_a_cliff():
    regular, irregular = chip.matmul("v4", 4096, 4096, 4096), chip.matmul("v4", 4095, 4095, 4095)
    assert irregular.high_s > 2 * regular.high_s


def test_int8_is_twice_as_fast_where_the_chip_is():
    assert chip.matmul("v6e", 8192, 8192, 8192).terms["compute"] == pytest.approx(
        2 * chip.matmul("v6e", 8192, 8192, 8192, dtype="int8").terms["compute"]
    )


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: chip.matmul("v2", 8, 8, 8, dtype="int8"), "no public int8 figure for v2"),
        (lambda: chip.matmul("v5e", 8, 8, 8, dtype="f64"), "unknown dtype 'f64'"),
        (lambda: chip.matmul("v5e", 8, 0, 8), "a matrix side is below 1: 8, 0, 8"),
        (lambda: chip.copy("v5e", -1), "a size is below 0: -1"),
        (lambda: chip.all_reduce("v5litepod-16", -1), "a size is below 0: -1"),
    ],
)
def test_what_cannot_be_estimated(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()


def test_unknown_names_are_the_catalog_s_errors():
    with pytest.raises(catalog.UnknownError):
        chip.matmul("v9", 8, 8, 8)
    with pytest.raises(catalog.UnknownError):
        chip.all_reduce("v5litepod-17", 8)


def test_a_single_chip_has_nothing_to_reduce():
    estimate = chip.all_reduce("v5litepod-1", 2**30)
    assert (estimate.low_s, estimate.value_s, estimate.high_s) == (0.0, 0.0, 0.0)


def ici_s(accelerator_type, size_bytes=2**30):
    return chip.all_reduce(accelerator_type, size_bytes).terms["ici"]


@pytest.mark.parametrize(
    ("mesh", "torus", "speed_up"),
    [
        ("v5litepod-64", "v5litepod-256", 2.0),  # 8x8 is open, 16x16 wraps on both axes
        ("v5litepod-64", "v5litepod-128", 1.5),  # 8x16 wraps on the long axis
        ("v4-64", "v4-128", 2.0),  # 2x4x4 is open, 4x4x4 is a cube
        ("v5p-64", "v5p-1024", 2.0),
        ("v2-128", "v2-512", 2.0),  # only the full pod wraps
        ("v3-512", "v3-2048", 2.0),
        ("v3-512", "v3-1024", 1.5),
    ],
)
def test_wraparound_doubles_an_axis(mesh, torus, speed_up):
    assert ici_s(mesh) / ici_s(torus) == pytest.approx(speed_up, rel=0.05)


def test_a_small_all_reduce_costs_its_launch_and_hops():
    estimate = chip.all_reduce("v5litepod-16", 4)
    assert estimate.value_s == estimate.terms["launch"] + estimate.terms["latency"]
    assert estimate.terms["latency"] == pytest.approx(12e-6)  # 4x4, open: 2 x (3 + 3) hops


@given(st.sampled_from(GENERATIONS), SIDES, SIDES, SIDES)
def test_a_matmul_lies_in_its_interval_and_never_beats_the_peak(generation, m, k, n):
    estimate = chip.matmul(generation, m, k, n)
    assert 0 < estimate.low_s <= estimate.value_s <= estimate.high_s < math.inf
    assert 2 * m * k * n / estimate.low_s < catalog.generation(generation).chip.bf16_flops
    assert 0 < estimate.terms["compute"] < estimate.value_s


@given(st.sampled_from(GENERATIONS), SIDES, SIDES, SIDES, st.sampled_from("mkn"))
def test_a_larger_matmul_is_never_faster(generation, m, k, n, side):
    shape = {"m": m, "k": k, "n": n}
    smaller = chip.matmul(generation, **shape)
    larger = chip.matmul(generation, **(shape | {side: shape[side] + 1}))
    assert smaller.value_s <= larger.value_s
    assert smaller.low_s <= larger.low_s


@given(st.sampled_from(GENERATIONS), SIZES, SIZES)
def test_a_larger_copy_takes_longer(generation, one, other):
    smaller, larger = sorted([one, other])
    assert chip.copy(generation, smaller).value_s <= chip.copy(generation, larger).value_s


@given(st.sampled_from(TYPES), SIZES, SIZES)
def test_a_larger_all_reduce_takes_no_less(accelerator_type, one, other):
    smaller, larger = (chip.all_reduce(accelerator_type, size) for size in sorted([one, other]))
    for moment in ("low_s", "value_s", "high_s"):
        assert getattr(smaller, moment) <= getattr(larger, moment)
    assert larger.low_s <= larger.value_s <= larger.high_s


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_estimate_names_its_source(generation):
    assert chip.copy(generation, 1).source


def test_an_estimate_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        chip.copy("v5e", 1).value_s = 0.0
