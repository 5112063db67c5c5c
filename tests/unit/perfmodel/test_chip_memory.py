"""Times of copies, DMA and elementwise passes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl import catalog
from tpuctl.perfmodel import chip
from tpuctl.perfmodel.chip import calibration, memory

GENERATIONS = tuple(each.name for each in catalog.generations())
SIZES = st.integers(min_value=0, max_value=2**40)
MOVES = {
    "copy": chip.copy,
    "dma": chip.dma,
    "elementwise": lambda generation, size: chip.elementwise(generation, size, size),
}


@given(st.sampled_from(sorted(MOVES)), st.sampled_from(GENERATIONS), SIZES, SIZES)
def test_more_bytes_take_no_less(move, generation, one, other):
    smaller, larger = (MOVES[move](generation, size) for size in sorted([one, other]))
    for figure in ("low_s", "value_s", "high_s"):
        assert getattr(smaller, figure) <= getattr(larger, figure)
    assert 0 < smaller.low_s <= smaller.value_s <= smaller.high_s < math.inf


@given(st.sampled_from(GENERATIONS), SIZES)
def test_no_copy_beats_the_memory_s_peak(generation, size_bytes):
    peak = catalog.generation(generation).chip.hbm_bytes_per_s
    assert 2 * size_bytes <= chip.copy(generation, size_bytes).low_s * peak * (1 + 1e-12)


@given(st.sampled_from(GENERATIONS), SIZES)
def test_a_copy_reads_and_writes_what_dma_moves_once(generation, size_bytes):
    copy, dma = chip.copy(generation, size_bytes), chip.dma(generation, 2 * size_bytes)
    assert copy.terms["memory"] == dma.terms["memory"]


def test_what_an_elementwise_pass_reads_and_writes_crosses_memory():
    one_pass, dma = chip.elementwise("v5e", 2**20, 2**18), chip.dma("v5e", 2**20 + 2**18)
    assert one_pass.terms["memory"] == dma.terms["memory"] > 0


def test_float16_is_converted_where_that_takes_its_time():
    work = memory.VectorPass(read_bytes=2**20, written_bytes=2**19, dtype="f16")
    figures, fitted = catalog.generation("v4").chip, calibration.constants("v4")
    terms = memory.elementwise_terms(fitted, figures, work)
    assert terms["conversion"] == (2**20 + 2**19) / fitted.conversion_bytes_per_s
    assert memory.total(terms) == terms["launch"] + terms["memory"] + terms["conversion"]


@given(st.sampled_from(GENERATIONS), SIZES, SIZES)
def test_float16_takes_no_less_than_bfloat16(generation, read, written):
    half, brain = (
        chip.elementwise(generation, read, written, dtype=dtype) for dtype in ("f16", "bf16")
    )
    rate = calibration.constants(generation).conversion_bytes_per_s
    conversion_s = 0 if rate is None else (read + written) / rate
    assert half.terms["conversion"] == conversion_s
    assert half.value_s == pytest.approx(brain.value_s + conversion_s)


@pytest.mark.parametrize("move", ["copy", "dma", "elementwise"])
@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_part_of_a_chip_has_its_share_of_the_bandwidth(generation, move):
    counts = {
        "device": catalog.generation(generation).devices_per_chip,
        "tensorcore": catalog.generation(generation).chip.tensorcores,
    }
    sizes = (2**30, 2**29) if move == "elementwise" else (2**30,)
    whole = getattr(chip, move)(generation, *sizes)
    for part, parts in counts.items():
        share = getattr(chip, move)(generation, *sizes, part=part)
        assert share.terms["memory"] == pytest.approx(parts * whole.terms["memory"])
        assert share.terms["launch"] == whole.terms["launch"]


def test_an_unknown_format_or_part_is_refused():
    with pytest.raises(ValueError, match="unknown dtype 'f64'; one of: bf16, f16, f32, int8, int"):
        chip.elementwise("v5e", 1, 1, dtype="f64")
    with pytest.raises(ValueError, match="unknown part 'core'; one of: chip, device, tensorcore"):
        chip.copy("v5e", 1, part="core")


def test_nothing_to_move_costs_the_launch():
    assert chip.copy("v5e", 0).value_s == chip.copy("v5e", 0).terms["launch"] > 0


def test_an_addition_waits_for_memory_and_much_arithmetic_for_the_vector_unit():
    addition = chip.elementwise("v5e", 2 * 2**20, 2**20, operations=2**18)
    much = chip.elementwise("v5e", 2 * 2**20, 2**20, operations=2**30)
    assert addition.terms["memory"] > addition.terms["vector"]
    assert much.terms["vector"] > much.terms["memory"]
    assert much.value_s == much.terms["launch"] + much.terms["vector"]


@pytest.mark.parametrize(
    ("generation", "clock_hz", "cores"),
    [("v4", 1.05e9, 2), ("v5e", 1.5e9, 1), ("v6e", 918e12 / (2 * 2 * 256**2), 1)],
)
def test_the_vector_unit_has_two_operations_a_lane_and_cycle(generation, clock_hz, cores):
    """Of v6e no clock is public: the one at which two MXUs of 256 x 256 reach its peak."""
    estimate = chip.elementwise(generation, 0, 0, operations=2**40)
    assert estimate.terms["vector"] == pytest.approx(2**40 / (cores * 8 * 128 * 2 * clock_hz))


def test_arrays_of_sizes_are_each_size_alone():
    sizes = [0, 1, 2**20, 2**33]
    for move in MOVES.values():
        together = move("tpu7x", np.array(sizes))
        assert together.value_s.tolist() == [move("tpu7x", size).value_s for size in sizes]


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_a_size_below_nothing_is_refused(move):
    with pytest.raises(ValueError, match="not a size: -1"):
        move("v5e", -1)
