"""Products of the matrix unit against exact integers, and float64 on the rounded operands."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localsim.core.chip.mxu import matmul
from localsim.core.numbers.fp8 import decode_fp8
from localsim.core.numbers.numerics import bfloat16

BAR = 3e-7
NARROW = {"f32": bfloat16, "bf16": lambda values: values}
LAYOUTS = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "every other row": lambda a: np.repeat(a, 2, axis=0)[::2],
    "every other column": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "backwards": lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
}


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def exactly(left, right):
    """In float64: products of bfloat16 are exact there, and their sums as good as."""
    return bfloat16(left).astype(np.float64) @ bfloat16(right).astype(np.float64)


def error(product, exact):
    return np.linalg.norm(product - exact) / max(np.linalg.norm(exact), 1e-300)


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(1, 1, 1), (3, 5, 7), (100, 300, 17), (64, 4096, 64), (8, 16384, 300)]
    + [(1, 16384, 200), (200, 16384, 1), (9, 16384, 4)],  # where a BLAS goes ways of its own
)
@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray])
@pytest.mark.parametrize("spread", [np.asarray, np.abs])
def test_a_product_is_that_of_the_rounded_operands(m, k, n, layout, spread):
    left, right = layout(spread(normal(m, k))), layout(spread(normal(k, n, seed=1)))
    product = matmul(left, right)
    assert product.dtype == np.float32
    assert error(product, exactly(left, right)) <= BAR


@pytest.mark.parametrize(("m", "k"), [(16, 65_536), (100, 300), (128, 2048), (9, 16_384)])
@pytest.mark.parametrize("scale", [1, 1.2, 1.4])  # where a sum crosses a power of two
def test_a_product_with_its_own_transpose_is_as_exact(m, k, scale):
    x = bfloat16(scale * normal(m, k))
    assert error(matmul(x, x.T), exactly(x, x.T)) <= BAR
    held = matmul(x, x.T, formats=("bf16", "bf16"))
    assert error(held, exactly(x, x.T)) <= BAR
    batch = matmul(np.stack([x, x])[:, :8], x.T)
    assert error(batch[1], exactly(x[:8], x.T)) <= BAR


@pytest.mark.parametrize(
    ("precision", "bar", "least"), [("high", 8e-6, 1e-6), ("highest", 5e-7, 0)]
)
@pytest.mark.parametrize("form", ["f32", "f16"])
def test_a_higher_precision_takes_more_of_the_bits(precision, bar, least, form):
    left, right = normal(70, 300), normal(300, 50, seed=1)
    if form == "f16":
        left, right = left.astype(np.float16), right.astype(np.float16)
        least = 0  # two parts hold all of its bits
    product = matmul(left, right, formats=(form, form), precision=precision)
    exact = left.astype(np.float64) @ right.astype(np.float64)
    assert product.dtype == np.float32
    assert least <= error(product, exact) <= bar
    mixed = matmul(left, bfloat16(right), formats=(form, "bf16"), precision=precision)
    assert error(mixed, left.astype(np.float64) @ bfloat16(right)) <= bar


@pytest.mark.parametrize("precision", ["high", "highest"])
def test_a_higher_precision_lets_infinities_and_whole_numbers_pass(precision):
    left = np.float32([[np.inf, 1], [4097, 2], [np.nan, 1]])
    product = matmul(left, np.float32([[1, 0], [0, 1]]), precision=precision)
    expected = matmul(np.float32([[np.inf, 1], [0, 2], [np.nan, 1]]), np.eye(2, dtype=np.float32))
    expected[1, 0] = 4097
    assert np.array_equal(product, expected, equal_nan=True)


@given(
    shape=st.tuples(*[st.integers(0, 40)] * 3),
    layouts=st.tuples(*[st.sampled_from(sorted(LAYOUTS))] * 2),
    formats=st.tuples(*[st.sampled_from(sorted(NARROW))] * 2),
)
def test_so_it_is_for_any_shape_and_layout(shape, layouts, formats):
    m, k, n = shape
    left = LAYOUTS[layouts[0]](bfloat16(normal(m, k)))
    right = LAYOUTS[layouts[1]](bfloat16(normal(k, n, seed=1)))
    product = matmul(left, right, formats=formats)
    assert product.shape == (m, n)
    assert error(product, exactly(left, right)) <= BAR


@given(shape=st.tuples(*[st.integers(0, 40)] * 3), seed=st.integers(0, 2**32 - 1))
def test_integers_multiply_exactly(shape, seed):
    m, k, n = shape
    random = np.random.default_rng(seed)
    left = random.integers(-128, 128, (m, k), np.int8)
    right = random.integers(-128, 128, (k, n), np.int8)
    product = matmul(left, right, formats=("int8", "int8"))
    assert product.dtype == np.int32
    assert np.array_equal(product, left.astype(np.int64) @ right.astype(np.int64))


@pytest.mark.parametrize("k", [1023, 1024, 1025, 2049, 4096])
@pytest.mark.parametrize(("most", "other"), [(-128, -128), (-128, 127), (127, 127)])
def test_extreme_integers_too_with_an_odd_one_first(k, most, other):
    left, right = np.full((2, k), most, np.int8), np.full((k, 3), other, np.int8)
    left[:, 0] = right[0] = 1
    expected = (k - 1) * most * other + 1
    assert np.array_equal(matmul(left, right, formats=("int8", "int8")), np.full((2, 3), expected))


def test_a_sum_past_int32_wraps_around():
    k = 131_072  # of which the greatest product is 2**14: 2**31 in all
    left, right = np.full((1, k), -128, np.int8), np.full((k, 1), -128, np.int8)
    assert matmul(left, right, formats=("int8", "int8")) == -(2**31)


@pytest.mark.parametrize("forms", [("e4m3", "e4m3"), ("e5m2", "e5m2"), ("e4m3", "e5m2")])
def test_codes_multiply_as_the_numbers_they_are(forms):
    random = np.random.default_rng(0)
    left, right = (
        random.integers(0, 0x70, (30, 200), np.uint8),
        random.integers(0x80, 0xF0, (200, 9)),
    )
    right = right.astype(np.uint8)
    exact = decode_fp8(left, forms[0]).astype(np.float64) @ decode_fp8(right, forms[1])
    assert error(matmul(left, right, formats=forms), exact) <= BAR


def test_a_code_of_a_nan_spoils_its_row_alone():
    left, right = np.full((3, 4), 0x38, np.uint8), np.full((4, 2), 0x38, np.uint8)
    left[1, 2] = 0x7F
    product = matmul(left, right, formats=("e4m3", "e4m3"))
    assert np.array_equal(product, [[4, 4], [np.nan, np.nan], [4, 4]], equal_nan=True)


@pytest.mark.parametrize(
    ("left", "right"), [((5, 1), (3,)), ((), (3,)), ((2,), ()), ((0,), ()), ((3,), (3,))]
)
@pytest.mark.parametrize("form", ["f32", "bf16", "int8"])
def test_leading_axes_go_together_as_in_numpy(left, right, form):
    kind = np.int8 if form == "int8" else np.float32
    a = np.random.default_rng(0).integers(-9, 9, (*left, 6, 8)).astype(kind)
    b = np.random.default_rng(1).integers(-9, 9, (*right, 4, 8)).astype(kind).swapaxes(-1, -2)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    product = matmul(a, b, formats=(form, form))
    assert product.shape == expected.shape
    assert np.array_equal(product, expected)  # small whole numbers: exact


def test_the_same_call_gives_the_same_bits_after_others_have_used_the_scratch():
    left, right = normal(130, 257), normal(257, 65, seed=1)
    once = matmul(left, right)
    matmul(normal(300, 300, seed=2), normal(300, 300, seed=3))
    assert np.array_equal(matmul(left, right), once)


def test_a_result_is_the_callers_own_and_the_operands_stay_as_they_are():
    left, right = normal(20, 30), normal(30, 20, seed=1)
    before = left.copy(), right.copy()
    product = matmul(left, right)
    kept = product.copy()
    matmul(right, left)
    assert np.array_equal(product, kept)
    assert np.array_equal(left, before[0])
    assert np.array_equal(right, before[1])


def test_what_is_rounded_already_is_not_rounded_again():
    unrounded = np.float32([[1 + 2**-20]])
    assert matmul(unrounded, unrounded, formats=("bf16", "bf16")) > 1  # it is taken at its word
    assert matmul(unrounded, unrounded) == 1


@pytest.mark.filterwarnings("error")
def test_infinities_and_nans_pass_without_a_word():
    left = np.array([[np.inf, 1], [np.nan, 1]], np.float32)
    right = np.array([[0.0], [1.0]], np.float32)
    assert np.isnan(matmul(left, right)).all()
    huge = np.full((1, 2), 3e38, np.float32)
    assert matmul(huge, huge.T) == np.inf


def test_subnormal_numbers_are_kept():
    assert matmul(np.float32([[2**-133]]), np.float32([[2.0]])) == 2**-132


@pytest.mark.parametrize(
    ("left", "right"), [((2, 3), (4, 5)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 2, 3), (3, 3, 2))]
)
def test_shapes_that_do_not_multiply_are_refused(left, right):
    with pytest.raises(ValueError, match="mismatch|broadcast"):
        matmul(np.ones(left), np.ones(right))


@pytest.mark.parametrize(
    ("kinds", "formats", "reason"),
    [
        (("f4", "f4"), ("f32", "int8"), "does not multiply f32 by int8"),
        (("u1", "f4"), ("e4m3", "bf16"), "does not multiply e4m3 by bf16"),
        (("i4", "i4"), ("int32", "int32"), "does not multiply int32 by int32"),
        (("f4", "f4"), ("int4", "int4"), "unknown dtype 'int4'"),
        (("f8", "f4"), ("bf16", "bf16"), "float32 operands are expected, not float64"),
        (("u1", "u1"), ("int8", "int8"), "int8 operands are expected, not uint8"),
        (("f4", "f4"), ("e4m3", "e4m3"), "codes of e4m3 are uint8, not float32"),
        (("c8", "c8"), ("f32", "f32"), "not a type of real numbers"),
    ],
)
def test_what_no_matrix_unit_multiplies_is_refused(kinds, formats, reason):
    left, right = (np.ones((2, 2), kind) for kind in kinds)
    with pytest.raises(ValueError, match=reason):
        matmul(left, right, formats=formats)
