"""Quantisation to int8 against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localsim.core.numbers.int8 import int8_scale, quantize_int8


@given(number=st.floats(-1e6, 1e6, width=32), exponent=st.integers(-20, 20))
def test_a_quotient_is_rounded_to_nearest_ties_to_even_and_saturates(number, exponent):
    scale = 2.0**exponent  # the quotient is exact
    nearest = round(Fraction(number) / Fraction(scale))  # ties to even
    expected = max(-128, min(127, nearest))
    assert quantize_int8(np.float32(number), scale) == expected


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0.5, 0),
        (1.5, 2),
        (2.5, 2),
        (-0.5, 0),
        (127.5, 127),
        (-128.5, -128),
        (300.0, 127),
        (-1e38, -128),
        (np.inf, 127),
        (-np.inf, -128),
        (np.nan, 0),
    ],
)
def test_the_edges(number, expected):
    assert quantize_int8(np.float32(number), 1.0) == expected


def test_the_division_is_that_of_float32_and_no_product_with_a_reciprocal():
    tenths = np.float32([0.05, 0.15, 0.25, 0.35])
    expected = np.rint(tenths / np.float32(0.1)).astype(np.int8)
    assert np.array_equal(quantize_int8(tenths, 0.1), expected)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_at_its_scale_the_greatest_is_127(axis):
    values = np.random.default_rng(0).standard_normal((5, 9)).astype(np.float32)
    scale = int8_scale(values, axis)
    quantized = quantize_int8(values, scale)
    assert np.all(np.abs(quantized).max(axis=axis) == 127)
    assert np.abs(quantized * scale - values).max() <= scale.max() * 0.5001


def test_nothing_but_zeros_has_a_scale_too():
    assert int8_scale(np.zeros((2, 3)), axis=1).tolist() == [[1.0], [1.0]]
    assert int8_scale(np.zeros((0, 3))).tolist() == [[1.0]]


def test_infinities_and_nans_do_not_spoil_the_scale_of_the_others():
    assert int8_scale(np.array([254.0, np.nan, -np.inf])).tolist() == [2.0]


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.nan, [1.0, 0.0]])
def test_a_scale_is_positive_and_finite(scale):
    with pytest.raises(ValueError, match="positive and finite"):
        quantize_int8(np.ones(2), np.array(scale))


def test_a_subnormal_scale_saturates():
    assert quantize_int8(np.float32([1.0, -1.0, 0.0]), 1e-45).tolist() == [127, -128, 0]


def test_what_is_no_real_number_is_refused():
    with pytest.raises(ValueError, match="not a type of real numbers"):
        quantize_int8(np.array([1j]), 1.0)
