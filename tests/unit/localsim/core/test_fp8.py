"""The 8-bit floating-point formats against ml_dtypes, code by code and border by border."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localsim.core.numbers.fp8 import FP8_FORMATS, decode_fp8, encode_fp8

PEERS = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
CODES = np.arange(256, dtype=np.uint8)

each_form = pytest.mark.parametrize("form", PEERS)


def peer_codes(values, form):
    with np.errstate(all="ignore"):  # ml_dtypes mentions NaNs and overflows
        return values.astype(PEERS[form]).view(np.uint8)


def next_to(values):
    below = np.nextafter(values, np.float32(-np.inf))
    return np.concatenate([below, values, np.nextafter(values, np.float32(np.inf))])


@each_form
def test_every_code_is_the_number_that_ml_dtypes_has(form):
    ours, theirs = decode_fp8(CODES, form), CODES.view(PEERS[form]).astype(np.float32)
    assert np.array_equal(ours, theirs, equal_nan=True)
    assert np.array_equal(np.signbit(ours), np.signbit(theirs))


@each_form
@pytest.mark.parametrize("low_half", [0x0000, 0x0001, 0x8000, 0xFFFF])
def test_every_upper_half_of_a_float32_is_encoded_as_in_ml_dtypes(form, low_half):
    values = (np.arange(1 << 16, dtype=np.uint32) << 16 | low_half).view(np.float32)
    assert np.array_equal(encode_fp8(values, form), peer_codes(values, form))


@each_form
def test_so_is_every_number_half_way_between_two_codes_and_its_neighbours(form):
    finite = np.unique(decode_fp8(CODES, form)[np.isfinite(decode_fp8(CODES, form))])
    borders = next_to((finite[:-1] + finite[1:]) / 2)
    assert np.array_equal(encode_fp8(borders, form), peer_codes(borders, form))


@given(bits=st.integers(0, 2**32 - 1), form=st.sampled_from(sorted(PEERS)))
def test_so_is_any_pattern_of_bits(bits, form):
    value = np.array([bits], np.uint32).view(np.float32)
    assert encode_fp8(value, form) == peer_codes(value, form)


@given(number=st.floats(-500, 500, width=32))
def test_what_is_encoded_is_nearest(number):
    codes = [code for code in range(256) if code & 0x7F != 0x7F]
    numbers = {code: Fraction(float(decode_fp8(np.uint8([code]), "e4m3")[0])) for code in codes}
    nearest = min(abs(each - Fraction(number)) for each in numbers.values())
    code = int(encode_fp8(np.float32([number]), "e4m3")[0])
    assert code & 0x7F == 0x7F or abs(numbers[code] - Fraction(number)) == nearest


@pytest.mark.parametrize(
    ("form", "value", "code"),
    [
        ("e4m3", 448.0, 0x7E),
        ("e4m3", 464.0, 0x7E),  # half a step past the greatest: a tie, to even
        ("e4m3", 464.01, 0x7F),  # no infinities: a NaN
        ("e4m3", -np.inf, 0xFF),
        ("e4m3", 2**-10, 0x00),  # half the least: a tie, to even
        ("e4m3", -(2**-10) * (1 + 2**-20), 0x81),
        ("e4m3", 2**-6 * (1 - 2**-20), 0x08),  # from the subnormals up to the least normal
        ("e4m3", 1 + 2**-4 + 2**-12, 0x39),  # a tie if it were a bfloat16 first
        ("e5m2", 57344.0, 0x7B),
        ("e5m2", 61439.0, 0x7B),
        ("e5m2", 61440.0, 0x7C),  # a tie, to even: an infinity
        ("e5m2", -np.inf, 0xFC),
        ("e5m2", 2**-17, 0x00),
        ("e5m2", np.nan, 0x7E),
    ],
)
def test_the_borders(form, value, code):
    assert encode_fp8(np.float32(value), form) == code


@each_form
def test_the_greatest_number_is_known(form):
    assert FP8_FORMATS[form].greatest == float(ml_dtypes.finfo(PEERS[form]).max)


@each_form
def test_any_shape_and_layout_stays(form):
    values = np.random.default_rng(0).standard_normal((4, 6, 5)).astype(np.float32)
    codes = encode_fp8(values, form)
    for view in (np.asarray, lambda a: a.swapaxes(0, 2), lambda a: a[::-2, :, ::-1]):
        assert np.array_equal(encode_fp8(view(values), form), peer_codes(view(values), form))
        expected = view(codes).copy().view(PEERS[form]).astype(np.float32)
        assert np.array_equal(decode_fp8(view(codes), form), expected)
    for empty_or_one in (values[:0], values[0, 0, 0]):
        assert decode_fp8(encode_fp8(empty_or_one, form), form).shape == empty_or_one.shape


@each_form
def test_so_does_an_array_of_many(form):
    codes = np.resize(CODES[:0x70], (300, 700))
    expected = codes.view(PEERS[form]).astype(np.float32)
    assert np.array_equal(decode_fp8(codes.T, form), expected.T)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="no 8-bit format 'e3m4': e4m3, e5m2"):
        encode_fp8(np.ones(3), "e3m4")
    with pytest.raises(ValueError, match="not a type of real numbers"):
        encode_fp8(np.array([1j]), "e4m3")
    with pytest.raises(ValueError, match="codes of e4m3 are uint8, not float32"):
        decode_fp8(np.ones(3, np.float32), "e4m3")
