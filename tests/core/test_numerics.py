"""bfloat16 against an oracle that rounds in whole numbers, one value at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from localsim.core.mxu import matmul
from localsim.core.numerics import bfloat16


def bits_of(value):
    return int(np.float32(value).view(np.uint32))


def from_bits(bits):
    return np.array(bits, np.uint32).view(np.float32)


def oracle(bits):
    """Round 32 bits to 16: to nearest, a tie to the even one; a NaN stays one."""
    exponent, fraction = bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF and fraction:
        return (bits >> 16 | 0x40) << 16
    kept, dropped = bits >> 16, bits & 0xFFFF
    if dropped > 0x8000 or (dropped == 0x8000 and kept & 1):
        kept += 1
    return kept << 16


@given(st.integers(0, 2**32 - 1))
def test_every_pattern_of_bits_rounds_as_the_oracle_says(bits):
    assert int(bfloat16(from_bits(bits)).view(np.uint32)) == oracle(bits)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, 0.0),
        (1.0, 1.0),
        (1 + 2**-8, 1.0),  # a tie, down to even
        (1 + 3 * 2**-8, 1 + 2**-6),  # a tie, up to even
        (1 + 2**-8 + 2**-20, 1 + 2**-7),
        (3.4e38, np.inf),  # above the largest bfloat16
        (np.inf, np.inf),
        (-np.inf, -np.inf),
        (2**-133, 2**-133),  # the smallest subnormal
        (2**-134, 0.0),  # half of it: a tie, to even
    ],
)
def test_the_edges(value, expected):
    assert bfloat16(np.float32(value)) == np.float32(expected)


def test_the_sign_of_zero_stays():
    assert bits_of(bfloat16(np.float32(-0.0))) == 0x8000_0000


@pytest.mark.parametrize("bits", [0x7F80_0001, 0x7FFF_FFFF, 0xFF80_0001, 0xFFFF_FFFF])
def test_a_nan_stays_a_nan_of_its_sign(bits):
    rounded = bfloat16(from_bits(bits))
    assert np.isnan(rounded)
    assert int(rounded.view(np.uint32)) >> 31 == bits >> 31


@given(arrays(np.float32, array_shapes(max_dims=3, max_side=5)))
def test_rounding_twice_is_rounding_once(values):
    once = bfloat16(values)
    assert np.array_equal(bfloat16(once), once, equal_nan=True)


def test_rounding_leaves_its_argument_alone():
    values = np.array([1.003, np.nan], np.float32)
    before = values.copy()
    bfloat16(values)
    assert np.array_equal(values, before, equal_nan=True)


def test_any_layout_rounds_alike():
    values = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)
    assert np.array_equal(bfloat16(values.T), bfloat16(values).T)
    assert np.array_equal(bfloat16(values[::2]), bfloat16(values)[::2])


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (64, 64, 64), (100, 300, 17)])
def test_a_product_is_that_of_the_rounded_operands(shape):
    m, k, n = shape
    random = np.random.default_rng(k)
    left = random.standard_normal((m, k)).astype(np.float32)
    right = random.standard_normal((k, n)).astype(np.float32)
    exact = bfloat16(left).astype(np.float64) @ bfloat16(right).astype(np.float64)
    error = np.linalg.norm(matmul(left, right) - exact) / np.linalg.norm(exact)
    assert error <= 3e-7


def test_small_whole_numbers_multiply_exactly():
    random = np.random.default_rng(1)
    left, right = random.integers(-256, 257, (2, 40, 40))
    product = matmul(left.astype(np.float32), right.astype(np.float32))
    assert np.array_equal(product, left @ right)


def test_infinities_and_nans_pass_without_a_word():
    left = np.array([[np.inf, 1], [np.nan, 1]], np.float32)
    right = np.array([[0.0], [1.0]], np.float32)
    assert np.isnan(matmul(left, right)).all()
