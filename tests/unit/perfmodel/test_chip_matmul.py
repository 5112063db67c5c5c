"""Times of matrix products: properties that hold for every shape, and rows that were published."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl import catalog
from tpuctl.perfmodel import chip
from tpuctl.perfmodel.chip import calibration, gemm

GENERATIONS = tuple(each.name for each in catalog.generations())
DTYPES = ("bf16", "f32", "int8", "fp8", "f16")
ROUNDING = 1 + 1e-12
SIDES = st.integers(min_value=0, max_value=20_000)


def test_the_terms_of_a_matmul():
    """4096 x 4096 on v6e, by hand: 918 TFLOP/s, 1,638 GB/s."""
    estimate = chip.matmul("v6e", 4096, 4096, 4096)
    compute_s = 2 * 4096**3 / 918e12
    memory_s = 3 * 2 * 4096**2 / 1638e9
    assert compute_s < estimate.terms["compute"] < 1.3 * compute_s
    assert memory_s < estimate.terms["memory"] < 1.3 * memory_s
    assert estimate.terms["conversion"] == 0
    assert estimate.terms["exposed"] == pytest.approx(
        estimate.terms["memory"] * 2**24 / (3 * 2 * 4096**2)
    )
    assert estimate.value_s == pytest.approx(
        estimate.terms["launch"] + estimate.terms["compute"] + estimate.terms["exposed"]
    )


@given(
    st.sampled_from(GENERATIONS),
    st.tuples(SIDES, SIDES, SIDES),
    st.sampled_from(DTYPES),
    st.integers(1, 64),
)
def test_the_value_lies_in_its_interval_and_never_beats_the_peak(generation, sides, dtype, batch):
    m, k, n = sides
    estimate = chip.matmul(generation, m, k, n, dtype=dtype, batch=batch)
    assert 0 < estimate.low_s <= estimate.value_s <= estimate.high_s < math.inf
    assert all(term >= 0 for term in estimate.terms.values())
    peak = gemm.peak(catalog.generation(generation).chip, dtype)
    assert 2 * batch * m * k * n <= estimate.low_s * peak * ROUNDING
    assert estimate.terms["compute"] < estimate.value_s


@given(st.sampled_from(GENERATIONS), SIDES, SIDES, SIDES, st.sampled_from("mkn"))
def test_a_larger_matmul_is_never_faster(generation, m, k, n, side):
    shape = {"m": m, "k": k, "n": n}
    smaller = chip.matmul(generation, **shape)
    larger = chip.matmul(generation, **(shape | {side: shape[side] + 1}))
    assert smaller.value_s <= larger.value_s


@given(
    st.sampled_from(GENERATIONS),
    st.lists(st.tuples(SIDES, SIDES, SIDES, st.integers(1, 9)), min_size=1, max_size=5),
    st.sampled_from(DTYPES),
)
def test_an_array_of_shapes_is_each_shape_alone(generation, shapes, dtype):
    m, k, n, batch = np.array(shapes).T
    together = chip.matmul(generation, m, k, n, dtype=dtype, batch=batch)
    for index, (m, k, n, batch) in enumerate(shapes):
        alone = chip.matmul(generation, m, k, n, dtype=dtype, batch=batch)
        for figure in ("value_s", "low_s", "high_s"):
            assert getattr(together, figure)[index] == getattr(alone, figure)
        for name, term in alone.terms.items():
            assert together.terms[name][index] == term


def test_shapes_broadcast():
    estimate = chip.matmul("v5e", np.array([[8], [16]]), 128, [128, 256, 384])
    assert estimate.value_s.shape == estimate.terms["launch"].shape == (2, 3)


def test_no_shapes_at_all():
    estimate = chip.matmul("v5e", [], 8, 8)
    assert estimate.value_s.shape == (0,)
    assert str(estimate) == "0 figures, modelled"


def test_small_integers_do_not_overflow():
    side = np.array([70_000], np.int32)
    assert chip.matmul("v5e", side, side, side).value_s[0] > 2 * 7e4**3 / 197e12


def test_padding_is_paid_in_compute_and_not_in_memory():
    odd, whole = chip.matmul("v5e", 1, 1, 1), chip.matmul("v5e", 8, 128, 128)
    assert odd.terms["compute"] == whole.terms["compute"]
    assert odd.terms["memory"] < whole.terms["memory"]


def test_an_empty_product_costs_its_launch():
    estimate = chip.matmul("v5e", 0, 128, 128, hbm_bytes=0)
    assert estimate.value_s == estimate.terms["launch"]


def test_a_batch_is_launched_once():
    one, eight = chip.matmul("v5e", 256, 256, 256), chip.matmul("v5e", 256, 256, 256, batch=8)
    assert eight.terms["launch"] == one.terms["launch"]
    assert eight.terms["compute"] == pytest.approx(8 * one.terms["compute"])
    assert eight.terms["memory"] == pytest.approx(8 * one.terms["memory"])


def test_what_stays_in_vmem_costs_no_memory():
    estimate = chip.matmul("v5e", 512, 512, 512, hbm_bytes=0)
    assert estimate.terms["memory"] == estimate.terms["reread"] == 0
    assert estimate.value_s < chip.matmul("v5e", 512, 512, 512).value_s


def test_a_matrix_that_vmem_keeps_is_read_once():
    """v4 has 32 MiB of VMEM; of two of 128 MiB neither stays."""
    assert chip.matmul("v4", 128, 8192, 8192).terms["reread"] == 0
    assert chip.matmul("v4", 8192, 8192, 8192).terms["reread"] > 0


def test_what_is_read_again_counts_where_computing_takes_no_longer():
    """Both operands are larger than half of a kernel's 32 MiB, and the sums are short."""
    estimate = chip.matmul("v6e", 16384, 640, 16384)
    terms = estimate.terms
    assert terms["reread"] > 0
    assert terms["memory"] < terms["compute"] + terms["exposed"] < estimate.value_s
    assert estimate.value_s == pytest.approx(
        terms["launch"] + terms["memory"] + terms["reread"] + terms["exposed"]
    )


def test_large_products_are_bound_by_the_mxu_and_thin_ones_by_memory():
    large, thin = chip.matmul("v5p", 8192, 8192, 8192), chip.matmul("v5p", 8, 8192, 8192)
    assert large.terms["compute"] > large.terms["memory"] + large.terms["reread"]
    assert thin.terms["compute"] < thin.terms["memory"]


@pytest.mark.parametrize("sides", [(4095, 4096, 4096), (4096, 4095, 4096), (4096, 4096, 4095)])
def test_an_irregular_shape_may_fall_off_a_cliff(sides):
    regular, irregular = chip.matmul("v4", 4096, 4096, 4096), chip.matmul("v4", *sides)
    assert irregular.high_s / irregular.value_s > regular.high_s / regular.value_s


@pytest.mark.parametrize("sides", [(8, 128, 128), (24, 384, 640)])
def test_a_shape_of_whole_vectors_is_regular(sides):
    some, large = chip.matmul("v4", *sides), chip.matmul("v4", 4096, 4096, 4096)
    assert some.high_s / some.value_s == pytest.approx(large.high_s / large.value_s)


@pytest.mark.parametrize(
    ("dtype", "operand_bytes", "result_bytes"),
    [("bf16", 2, 2), ("f16", 2, 2), ("f32", 4, 4), ("int8", 1, 4), ("fp8", 1, 2)],
)
def test_operands_and_result_cross_memory_in_their_own_formats(dtype, operand_bytes, result_bytes):
    moved = operand_bytes * (64 * 256 + 256 * 512) + result_bytes * 64 * 512
    whole = chip.matmul("v5e", 64, 256, 512, dtype=dtype)
    told = chip.matmul("v5e", 64, 256, 512, dtype=dtype, hbm_bytes=moved)
    assert whole.terms["memory"] == told.terms["memory"]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_at_its_peaks_a_chip_loses_nothing(generation):
    figures, fitted = catalog.generation(generation).chip, calibration.constants(generation)
    large, thin = (
        gemm.peak_seconds(fitted, gemm.terms(fitted, figures, gemm.MatmulWork(m, 8192, 8192)))
        for m in (8192, 8)
    )
    assert large == pytest.approx(2 * 8192**3 / figures.bf16_flops)
    assert thin == pytest.approx(2 * (8192**2 + 2 * 8 * 8192) / figures.hbm_bytes_per_s)


@pytest.mark.parametrize(
    ("generation", "dtype", "of_bf16"),
    [
        ("v6e", "int8", 1 / 2),
        ("v4", "int8", 1.0),
        ("tpu7x", "fp8", 1 / 2),
        ("v5e", "fp8", 1.0),  # not native
        ("v2", "int8", 1.0),  # no public rate
        ("v5e", "f32", 6.0),
        ("v4", "f16", 1.0),
    ],
)
def test_the_time_on_the_mxu_beside_bf16(generation, dtype, of_bf16):
    whole = chip.matmul(generation, 8192, 8192, 8192)
    other = chip.matmul(generation, 8192, 8192, 8192, dtype=dtype)
    assert other.terms["compute"] == pytest.approx(of_bf16 * whole.terms["compute"], rel=1e-3)


def test_a_rate_that_is_not_public_is_told():
    assert chip.matmul("v5e", 8, 8, 8, dtype="fp8").sources[-1] == (
        "fp8 on v5e: no public rate, so that of bfloat16"
    )


def test_float16_is_converted_first_the_smaller_operand_by_both_cores():
    wide, tall = (chip.matmul("v4", m, 512, n, dtype="f16") for m, n in [(256, 1024), (1024, 256)])
    assert wide.terms["conversion"] == tall.terms["conversion"] > 0
    element_s = chip.matmul("v4", 1, 1, 1, dtype="f16").terms["conversion"] / 4
    converted = 512 * 1024 + 2 * 256 * 512 + 256 * 1024
    assert wide.terms["conversion"] == pytest.approx(converted * element_s)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: chip.matmul("v5e", 8, 8, 8, dtype="f64"), "unknown dtype 'f64'; one of: bf16, "),
        (
            lambda: chip.matmul("v5e", 8, 8, 8, result_dtype="f64"),
            "unknown result dtype 'f64'; one",
        ),
        (lambda: chip.matmul("v5e", 8, 8, 8, precision="best"), "unknown precision 'best'; one of"),
        (
            lambda: chip.matmul("v5e", 8, 8, 8, part="half"),
            "unknown part 'half'; one of: chip, dev",
        ),
        (
            lambda: chip.matmul("v5e", 8, 8, 8, clock="fast"),
            "unknown clock 'fast'; one of: default",
        ),
        (
            lambda: chip.matmul("v5e", 8, 8, 8, clock="pinned"),
            "no public measurement of v5e at a p",
        ),
        (lambda: chip.matmul("v5e", 8, -1, 8), "not a matrix side: -1"),
        (lambda: chip.matmul("v5e", 8, [3, -2], 8), "not a matrix side: -2"),
        (lambda: chip.matmul("v5e", 8, math.nan, 8), "not a matrix side: nan"),
        (lambda: chip.matmul("v5e", math.inf, 8, 8), "not a matrix side: inf"),
        (lambda: chip.matmul("v5e", 8, 8, 8, batch=-4), "not a batch: -4"),
        (lambda: chip.matmul("v5e", 8, 8, 8, hbm_bytes=-1), "not a size: -1"),
    ],
)
def test_what_cannot_be_estimated(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()


def test_an_unknown_generation_is_the_catalog_s_error():
    with pytest.raises(catalog.UnknownError):
        chip.matmul("v9", 8, 8, 8)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_constant_names_its_source(generation):
    sources = chip.matmul(generation, 8, 8, 8).sources
    assert len(sources) == 3
    assert all(generation in source for source in sources)


RAGGED = st.integers(min_value=1_001, max_value=8_000)


@given(RAGGED, RAGGED, RAGGED)
def test_the_interval_holds_both_times_of_a_large_ragged_product(m, k, n):
    estimate = chip.matmul("v4", m, k, n, dtype="f16")
    fast, slow = sorted([estimate.value_s, estimate.other_s])
    assert estimate.low_s <= fast <= slow
    assert estimate.low_s <= estimate.value_s <= estimate.high_s
    is_slow = estimate.terms["retiling"] > 0
    assert estimate.value_s == pytest.approx(slow if is_slow else fast)


def test_a_shallow_ragged_product_is_expected_to_be_tiled_small():
    deep, shallow = (chip.matmul("v4", 2001, k, 2001, dtype="f16") for k in (2001, 1501))
    assert deep.terms["retiling"] == 0
    assert deep.other_s > deep.value_s
    assert shallow.terms["retiling"] > 0
    assert shallow.other_s == pytest.approx(shallow.value_s - shallow.terms["retiling"])


def test_small_tiles_convert_an_operand_again_for_every_block_of_rows():
    fitted = calibration.constants("v4")
    again_bytes = 2 * 2001 * 1501 * 2001 / fitted.reconverted_rows
    retiling_s = chip.matmul("v4", 2001, 1501, 2001, dtype="f16").terms["retiling"]
    assert retiling_s == pytest.approx(again_bytes / fitted.conversion_bytes_per_s)


@pytest.mark.parametrize("sides", [(2048, 1536, 2048), (2001, 1501, 1000), (999, 999, 999)])
def test_a_regular_or_smaller_product_has_one_time(sides):
    estimate = chip.matmul("v4", *sides, dtype="f16")
    assert estimate.other_s == pytest.approx(estimate.value_s)
    assert estimate.terms["retiling"] == 0


@pytest.mark.parametrize(("generation", "dtype"), [("v4", "bf16"), ("v6e", "f16")])
def test_a_product_that_is_not_converted_has_no_second_time(generation, dtype):
    assert chip.matmul(generation, 2001, 1501, 2001, dtype=dtype).other_s is None


@given(
    st.sampled_from(GENERATIONS),
    st.lists(st.tuples(RAGGED, RAGGED, RAGGED), min_size=1, max_size=5),
)
def test_both_times_of_an_array_are_those_of_each_shape(generation, shapes):
    m, k, n = np.array(shapes).T
    together = chip.matmul(generation, m, k, n, dtype="f16")
    alone = [chip.matmul(generation, *shape, dtype="f16") for shape in shapes]
    assert together.value_s.tolist() == [each.value_s for each in alone]
    if together.other_s is not None:
        assert together.other_s.tolist() == [each.other_s for each in alone]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_part_of_a_chip_has_its_share_of_the_peaks(generation):
    known = catalog.generation(generation)
    whole = chip.matmul(generation, 8192, 8192, 8192).terms
    for part, parts in {
        "chip": 1,
        "device": known.devices_per_chip,
        "tensorcore": known.chip.tensorcores,
    }.items():
        share = chip.matmul(generation, 8192, 8192, 8192, part=part).terms
        assert share["compute"] == pytest.approx(parts * whole["compute"])
        assert share["memory"] == pytest.approx(parts * whole["memory"])
        assert share["launch"] == whole["launch"]


def test_the_vector_units_of_both_cores_convert_side_by_side():
    whole, core = (
        chip.matmul("v4", 512, 512, 512, dtype="f16", part=part).terms["conversion"]
        for part in ("chip", "tensorcore")
    )
    # Together they convert the matrix that they share twice.
    assert core == pytest.approx(2 * whole * 3 / 4)


@pytest.mark.parametrize(
    ("dtype", "precision", "passes"),
    [
        ("f32", None, 6),
        ("f32", "highest", 6),
        ("f32", "high", 3),
        ("f32", "default", 1),
        ("f16", None, 1),
        ("f16", "highest", 6),
        ("bf16", "highest", 1),
        ("int8", "high", 1 / 2),
    ],
)
def test_a_precision_is_so_many_passes_of_bfloat16(dtype, precision, passes):
    one = chip.matmul("v6e", 4096, 4096, 4096).terms["compute"]
    asked = chip.matmul("v6e", 4096, 4096, 4096, dtype=dtype, precision=precision)
    assert asked.terms["compute"] == pytest.approx(passes * one, rel=1e-3)


@pytest.mark.parametrize(("result_dtype", "result_bytes"), [("f32", 4), ("bf16", 2), ("int8", 1)])
def test_a_result_crosses_memory_in_the_format_that_is_asked(result_dtype, result_bytes):
    moved = 64 * 256 + 256 * 512 + result_bytes * 64 * 512
    narrow = chip.matmul("v5e", 64, 256, 512, dtype="int8", result_dtype=result_dtype)
    told = chip.matmul("v5e", 64, 256, 512, dtype="int8", hbm_bytes=moved)
    assert narrow.terms["memory"] == told.terms["memory"]


def test_a_pinned_clock_multiplies_faster_where_that_is_public():
    default, pinned = (
        chip.matmul("tpu7x", 8192, 8192, 8192, part="device", clock=clock)
        for clock in ("default", "pinned")
    )
    fitted = calibration.constants("tpu7x")
    ratio = fitted.pinned_compute_efficiency / fitted.compute_efficiency
    assert default.terms["compute"] / pinned.terms["compute"] == pytest.approx(ratio)
    assert ratio > 1.1
    assert default.terms["memory"] == pinned.terms["memory"]
    assert "pinned_compute_efficiency: fitted to 1 public measurements" in pinned.sources[1]


def test_how_an_estimate_is_printed():
    estimate = chip.Estimate(12.3e-6, 10.1e-6, 15.2e-6, {}, ())
    assert str(estimate) == "12.3 us modelled (10.1 us to 15.2 us)"
    assert estimate.label == "modelled"


def test_an_estimate_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        chip.matmul("v5e", 8, 8, 8).value_s = 0.0
