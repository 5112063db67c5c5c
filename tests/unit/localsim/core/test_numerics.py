"""bfloat16 against an oracle that rounds in whole numbers, and against ml_dtypes."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from localsim.core.numbers.numerics import bfloat16, float32

LOW_HALVES = [0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF]


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


@pytest.mark.parametrize("low_half", LOW_HALVES)
def test_every_upper_half_rounds_as_in_ml_dtypes(low_half):
    values = from_bits(np.arange(1 << 16, dtype=np.uint32) << 16 | low_half)
    with np.errstate(invalid="ignore"):  # ml_dtypes mentions NaNs
        expected = values.astype(ml_dtypes.bfloat16).astype(np.float32)
    rounded = bfloat16(values)
    assert np.array_equal(rounded, expected, equal_nan=True)
    assert np.array_equal(np.signbit(rounded), np.signbit(expected))
    assert not (rounded.view(np.uint32) & 0xFFFF).any()


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


def test_a_nan_among_numbers_changes_none_of_them():
    values = np.linspace(-3, 3, 200_000, dtype=np.float32)  # more than one block
    expected = bfloat16(values)
    values[[0, 150_000, -1]] = expected[[0, 150_000, -1]] = np.nan
    assert np.array_equal(bfloat16(values), expected, equal_nan=True)


def test_nothing_is_said_of_numbers_that_are_great_small_or_none():
    values = np.float32([3e38, -3e38, np.inf, -np.inf, np.nan, 1e-45])
    with np.errstate(all="raise"):
        assert np.array_equal(np.isnan(bfloat16(values)), np.isnan(values))
        assert np.isinf(bfloat16(values[:4])).tolist() == [False, False, True, True]


@given(arrays(np.float32, array_shapes(max_dims=3, max_side=5)))
def test_rounding_twice_is_rounding_once(values):
    once = bfloat16(values)
    assert np.array_equal(bfloat16(once), once, equal_nan=True)


def test_rounding_leaves_its_argument_alone():
    values = np.array([1.003, np.nan], np.float32)
    before = values.copy()
    bfloat16(values)
    assert np.array_equal(values, before, equal_nan=True)


VIEWS = {
    "transposed": lambda a: a.T,
    "every other row": lambda a: a[::2],
    "every other column": lambda a: a[:, ::2],
    "backwards": lambda a: a[::-1, ::-1],
    "a broadcast row": lambda a: np.broadcast_to(a[1], a.shape),
    "three axes, two of them swapped": lambda a: a.reshape(7, 5, 4).swapaxes(1, 2),
    "one number": lambda a: a[3, 3],
    "nothing": lambda a: a[:0],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_any_layout_rounds_alike(view):
    values = np.random.default_rng(0).standard_normal((7, 20)).astype(np.float32)
    expected = np.array([oracle(bits_of(each)) for each in view(values).ravel()], np.uint32)
    rounded = bfloat16(view(values))
    assert rounded.shape == view(values).shape
    assert np.array_equal(rounded.ravel(), from_bits(expected))


@pytest.mark.parametrize(
    "view", [VIEWS["transposed"], VIEWS["every other row"], VIEWS["backwards"]]
)
def test_out_may_have_any_layout_or_be_the_values_themselves(view):
    values = np.random.default_rng(0).standard_normal((7, 20)).astype(np.float32)
    expected = bfloat16(values)
    apart = view(np.zeros_like(values))
    assert bfloat16(view(values), out=apart) is apart
    assert np.array_equal(apart, view(expected))
    bfloat16(view(values), out=view(values))
    assert np.array_equal(view(values), view(expected))


@pytest.mark.parametrize("values", [[1.0, 2.5], [7, 8], np.array([1.5], ">f4"), [True], 3.0])
def test_real_numbers_of_any_type_are_float32_first(values):
    assert np.array_equal(bfloat16(values), np.asarray(values, np.float64))


def test_a_double_is_rounded_to_float32_first_as_it_is_before_it_reaches_a_chip():
    assert bfloat16(np.float64(1 + 2**-8 + 2**-40)) == 1.0


def test_a_double_that_is_too_great_is_an_infinity():
    assert float32(np.array([1e300, -1e300])).tolist() == [np.inf, -np.inf]


@pytest.mark.parametrize("values", [np.array([1j]), np.array(["1"]), np.array([object()])])
def test_what_is_no_real_number_is_refused(values):
    with pytest.raises(ValueError, match="not a type of real numbers"):
        bfloat16(values)
