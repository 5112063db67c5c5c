"""Whatever the shapes, strides and special values: a chip's numbers against independent oracles."""

from math import prod

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localsim.core import Chip, Counters

FORMATS = {
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}
SPECIALS = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0**-126, -(2.0**-126)]
LAYOUTS = {
    "rows": np.ascontiguousarray,
    "columns": lambda a: np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2),
    "backwards": lambda a: np.ascontiguousarray(a[..., ::-1, ::-1])[..., ::-1, ::-1],
    "every second": lambda a: np.repeat(np.repeat(a, 2, axis=-1), 2, axis=-2)[..., ::2, ::2],
    "in something wider": lambda a: np.pad(a, [(0, 0)] * (a.ndim - 2) + [(1, 2), (3, 1)])[
        ..., 1:-2, 3:-1
    ],
    "read only": lambda a: np.broadcast_to(a, a.shape),
}

sides = st.integers(0, 12)
layouts = st.sampled_from(sorted(LAYOUTS))
seeds = st.integers(0, 2**32 - 1)


@st.composite
def shapes(draw):
    """Those of two operands, their batches broadcast."""
    m, k, n = draw(sides), draw(sides), draw(sides)
    left, right = draw(
        st.sampled_from(
            [((), ()), ((2,), ()), ((), (3,)), ((2, 1), (3,)), ((0,), ()), ((2,), (2,))]
        )
    )
    return (*left, m, k), (*right, k, n)


def rounded(values, form):
    """Through the format of another library, in float64."""
    with np.errstate(all="ignore"):
        return values.astype(FORMATS[form]).astype(np.float64)


def numbers(shape, seed):
    random = np.random.default_rng(seed)
    scales = 2.0 ** random.integers(-20, 20, shape)
    return (random.standard_normal(shape) * scales).astype(np.float32)


def assert_close(product, left, right):
    """Each element as near as float32 sums of exact products can be said to come, in any order."""
    terms = np.abs(left) @ np.abs(right)
    assert product.dtype == np.float32
    assert product.shape == terms.shape
    assert (np.abs(product - left @ right) <= 2.0**-23 * max(left.shape[-1], 1) * terms).all()


@given(shapes(), layouts, layouts, seeds)
def test_a_product_of_any_shape_and_layout(shape, left_layout, right_layout, seed):
    left, right = numbers(shape[0], seed), numbers(shape[1], seed + 1)
    product = Chip("v5e").matmul(LAYOUTS[left_layout](left), LAYOUTS[right_layout](right))
    assert_close(product, rounded(left, "bf16"), rounded(right, "bf16"))


@given(shapes(), layouts, seeds, st.sampled_from(["e4m3", "e5m2"]))
def test_a_product_of_fp8_codes(shape, layout, seed, form):
    random = np.random.default_rng(seed)
    # Half of the range: no product of sums overflows float32, and no code is special.
    left, right = (
        random.integers(0, 0x60, each).astype(np.uint8) | random.choice([0, 0x80], each)
        for each in shape
    )
    codes = [each.astype(np.uint8) for each in (left, right)]
    product = Chip("tpu7x").matmul(LAYOUTS[layout](codes[0]), codes[1], dtype=form)
    assert_close(product, *(each.view(FORMATS[form]).astype(np.float64) for each in codes))


@given(shapes(), layouts, layouts, seeds, st.booleans())
def test_whole_numbers_multiply_exactly(shape, left_layout, right_layout, seed, is_extreme):
    random = np.random.default_rng(seed)
    choose = random.choice if is_extreme else lambda _, size: random.integers(-128, 128, size)
    left, right = (np.asarray(choose([-128, 127], each), np.int8) for each in shape)
    product = Chip("v5e").matmul(
        LAYOUTS[left_layout](left), LAYOUTS[right_layout](right), dtype="int8"
    )
    assert product.dtype == np.int32
    assert np.array_equal(product, left.astype(np.int64) @ right.astype(np.int64))


@pytest.mark.parametrize("k", [1023, 1024, 1025, 2049, 4096])
def test_no_unit_is_lost_beside_the_greatest_products(k):
    # One after another, float32 would lose the 1 once the sum has passed 2**24.
    left, right = np.full((2, k), -128, np.int8), np.full((k, 3), -128, np.int8)
    left[0, 0] = right[0, :] = 1
    expected = left.astype(np.int64) @ right.astype(np.int64)
    assert np.array_equal(Chip("v5e").matmul(left, right, dtype="int8"), expected)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), seeds)
def test_infinities_and_nans_go_where_ieee_says(m, k, n, seed):
    random = np.random.default_rng(seed)
    left, right = random.choice(SPECIALS, (m, k)), random.choice(SPECIALS, (k, n))
    product = Chip("v5e").matmul(left.astype(np.float32), right.astype(np.float32))
    with np.errstate(invalid="ignore"):
        expected = (left[:, :, None] * right[None]).sum(axis=1)
    assert np.array_equal(product, expected.astype(np.float32), equal_nan=True)


@given(shapes(), layouts, seeds)
def test_what_was_put_before_multiplies_to_the_same_bits(shape, layout, seed):
    chip = Chip("v5e")
    left, right = LAYOUTS[layout](numbers(shape[0], seed)), numbers(shape[1], seed + 1)
    at_once = chip.matmul(left, right)
    kept = chip.matmul(chip.put(left, "bf16"), chip.put(right, "bf16"))
    assert kept.tobytes() == at_once.tobytes()


@given(
    st.sampled_from(["bf16", "e4m3", "e5m2"]),
    st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=40),
)
def test_what_is_put_is_rounded_as_another_library_rounds(form, patterns):
    values = np.array(patterns, np.uint32).view(np.float32)
    held = Chip("v5e").put(values, form).values
    ours = held if form == "bf16" else held.view(FORMATS[form]).astype(np.float32)
    theirs = rounded(values, form)
    assert np.array_equal(ours, theirs, equal_nan=True)
    assert np.array_equal(np.signbit(ours), np.signbit(theirs))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "e4m3", "int8"])
def test_what_is_held_stays_as_it_was_put(dtype):
    values = np.full((3, 4), 2, np.int8 if dtype == "int8" else np.float32)
    held = Chip("v5e").put(values, dtype)
    before = held.values.copy()
    values += 1
    assert np.array_equal(held.values, before)
    with pytest.raises(ValueError, match="read-only"):
        held.values[...] = 0


@given(st.lists(st.tuples(st.sampled_from(["put", "turn", "move", "drop"]), seeds), max_size=30))
def test_memory_is_in_use_as_long_as_anything_reads_it(steps):
    chip, held = Chip("v5e"), []  # of each Buffer: what it reads, by number
    sizes = []
    for step, seed in steps:
        if step == "put" or not held:
            buffer = chip.put(np.zeros((seed % 50, 7)), "bf16")
            sizes.append((buffer.memory.name, buffer.size_bytes))
            held.append((buffer, len(sizes) - 1))
            continue
        buffer, number = held[seed % len(held)]
        if step == "turn":
            held.append((buffer.T, number))
        elif step == "move":
            moved = chip.dma(buffer, "vmem" if buffer.memory.name == "HBM" else "hbm")
            sizes.append((moved.memory.name, moved.size_bytes))
            held.append((moved, len(sizes) - 1))
            del moved
        else:
            del held[seed % len(held)]
        del buffer
        for memory in (chip.hbm, chip.vmem):
            live = {number for _, number in held if sizes[number][0] == memory.name}
            assert memory.used_bytes == sum(sizes[number][1] for number in live)
            assert memory.used_bytes <= memory.peak_bytes


@given(shapes(), st.sampled_from(["v2", "v3", "v4", "v5e", "v5p", "v6e", "tpu7x"]))
def test_an_operation_costs_something_of_everything_and_only_ever_adds(shape, generation):
    chip = Chip(generation)
    chip.matmul(np.ones(shape[0]), np.ones(shape[1]))
    once = chip.counters
    outer = np.broadcast_shapes(shape[0][:-2], shape[1][:-2])
    assert once.flops == 2 * prod(outer) * prod(shape[0][-2:]) * shape[1][-1]
    assert 0 <= once.mxu_busy_s <= once.modelled_s
    chip.matmul(np.ones(shape[0]), np.ones(shape[1]))
    assert chip.counters == once + once
    assert chip.counters - once == once


def test_nothing_is_charged_for_what_is_refused():
    chip = Chip("v5e")
    for left, right in [((2, 3), (4, 5)), ((2, 3, 4), (3, 4, 5)), ((3,), (3, 2))]:
        with pytest.raises(ValueError, match=r"\d"):
            chip.matmul(np.ones(left), np.ones(right))
    assert (chip.counters, chip.hbm.used_bytes) == (Counters(), 0)
