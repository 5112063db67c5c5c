"""The vector unit: float32 whatever comes, sums in one order whatever the layout."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localsim.core import Buffer, Chip
from localsim.core.chip.vpu import reduce
from tpuctl.perfmodel import chip as model


@pytest.fixture
def v5e():
    return Chip("v5e")


def test_floats_are_float32_before_and_after(v5e):
    seen = []

    def function(x, labels, scale):
        seen.extend([x.dtype, labels.dtype, scale.dtype])
        return x * scale

    wide = np.array([1 / 3, 0.1])
    result = v5e.elementwise(function, wide, np.array([1, 2]), 0.5)
    assert seen == [np.float32, np.int64, np.float32]
    assert result.tolist() == (wide.astype(np.float32) * np.float32(0.5)).tolist()


def test_a_result_can_stay_in_hbm_rounded_once(v5e):
    values = np.array([1.0, 1 + 2**-8, 1 + 2**-7], np.float32)
    held = v5e.elementwise(np.add, values, np.float32(2**-20), dtype="bf16")
    assert isinstance(held, Buffer)
    assert held.values.tolist() == [1.0, 1 + 2**-7, 1 + 2**-7]
    assert v5e.hbm.used_bytes == 6
    codes = v5e.elementwise(lambda x: x.astype(np.int8), held, dtype="int8")
    assert codes.values.tolist() == [1, 1, 1]


def test_a_function_is_given_numbers_also_of_codes(v5e):
    held = v5e.put(np.array([0.5, 448]), "e4m3")
    assert v5e.elementwise(lambda x: x * 2, held).tolist() == [1, 896]


def test_a_result_is_its_own_where_a_function_gives_back_its_argument(v5e):
    held = v5e.put(np.ones(3), "bf16")
    result = v5e.elementwise(lambda x: x, held)
    result += 1
    assert held.values.tolist() == [1, 1, 1]
    given = np.full((2, 2), 1 + 2**-12, np.float32)
    v5e.elementwise(lambda x: x[:], given, dtype="bf16")
    v5e.elementwise(lambda x: x.T, given)[:] = 5
    assert (given == 1 + 2**-12).all()


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32, np.bool_])
def test_a_function_cannot_change_what_it_is_given(v5e, kind):
    given = np.ones(3, kind)
    for change in (lambda x: np.multiply(x, 2, out=x), lambda x: x.fill(5), lambda x: x.sort()):
        with pytest.raises(ValueError, match="read-only"):
            v5e.elementwise(change, given)
    assert given.tolist() == [1, 1, 1]
    given[0] = 0  # still its owner's to write


def test_a_reduction_can_stay_in_hbm(v5e):
    held = v5e.reduce("sum", np.array([1.0, 2**-8]), dtype="bf16")
    assert (held.dtype, held.values, v5e.hbm.used_bytes) == ("bf16", 1, 2)
    assert v5e.counters.hbm_bytes == 8 + 2


def test_a_table_that_a_function_keeps_is_not_rounded_with_its_result(v5e):
    table = np.full(4, 1.003, np.float32)
    kept = {"table": np.full(4, 1.003, np.float32)}
    for dtype in ("bf16", "f32"):
        v5e.elementwise(lambda x: table, np.ones(4), dtype=dtype)
        v5e.elementwise(lambda x: kept["table"], np.ones(4), dtype=dtype)
        v5e.elementwise(lambda x: table[::2], np.ones(4), dtype=dtype)
    for each in (table, kept["table"]):
        each[0] = 0  # still its owner's to write
        assert each[1:].tolist() == [np.float32(1.003)] * 3


@pytest.mark.parametrize(("kind", "dtype"), [(np.int8, "int8"), (np.uint8, "e4m3")])
def test_what_is_held_is_not_the_array_that_a_function_keeps(v5e, kind, dtype):
    kept = np.full(4, 0x38, kind)
    held = v5e.elementwise(lambda x: kept, np.ones(4), dtype=dtype)
    kept[:] = 0
    assert held.values.tolist() == [0x38] * 4


def test_a_result_can_be_one_value_for_all(v5e):
    same = v5e.elementwise(lambda x: np.broadcast_to(x.max(), (2, 3)), np.ones(4), dtype="bf16")
    assert same.values.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_overflow_and_nothing_by_nothing_go_without_a_word(v5e):
    result = v5e.elementwise(lambda x, y: np.exp(x) / y, np.array([1000.0, -1000.0]), np.zeros(2))
    assert math.isinf(result[0])
    assert math.isnan(result[1])


def test_there_are_no_complex_numbers(v5e):
    with pytest.raises(ValueError, match="complex64 is not a type of real numbers"):
        v5e.elementwise(lambda x: x * 1j, np.ones(2))


def test_an_elementwise_operation_costs_its_traffic(v5e):
    v5e.elementwise(np.add, np.ones(1000, np.float32), np.ones(1000, np.float32))
    assert (v5e.counters.hbm_bytes, v5e.counters.flops) == (12_000, 0)
    estimate = model.elementwise("v5e", 8000, 4000, 1000)
    assert v5e.counters.modelled_s == estimate.value_s


def test_what_is_in_vmem_is_not_read_from_hbm(v5e):
    far = v5e.put(np.ones((1000, 1000)), "bf16")
    near = v5e.dma(far, "vmem")
    before = v5e.counters
    v5e.reduce("sum", far)
    from_far = v5e.counters - before
    before = v5e.counters
    v5e.reduce("sum", near)
    from_near = v5e.counters - before
    assert (from_far.hbm_bytes, from_near.hbm_bytes) == (2_000_004, 4)
    assert from_near.modelled_s < from_far.modelled_s


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (2, 0), [1], np.int64(1)])
@pytest.mark.parametrize("kind", ["sum", "max", "mean"])
def test_reductions_are_those_of_numpy(v5e, kind, axis):
    values = np.random.default_rng(0).standard_normal((5, 7, 6)).astype(np.float32)
    expected = getattr(np, kind)(
        values.astype(np.float64), axis=tuple(axis) if isinstance(axis, list) else axis
    )
    found = v5e.reduce(kind, values, axis)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.integers(0, 2),
    st.integers(0, 2**32 - 1),
)
def test_a_sum_has_the_same_bits_however_the_array_lies_in_memory(shape, axis, seed):
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    axis %= len(shape)
    wide = np.repeat(values, 2, axis=-1)[..., ::2]
    found = reduce("sum", values, axis)
    assert np.array_equal(found, reduce("sum", np.asfortranarray(values), axis))
    assert np.array_equal(found, reduce("sum", wide, axis))


def test_a_long_sum_stays_near_the_exact_one():
    values = np.random.default_rng(1).random((1 << 18, 2), np.float32)
    exact = values.sum(axis=0, dtype=np.float64)
    assert np.abs(reduce("sum", values, 0) / exact - 1).max() < 3e-7


def test_a_nan_goes_through(v5e):
    values = np.array([1, np.nan, np.inf])
    assert all(np.isnan(v5e.reduce(kind, values)) for kind in ("sum", "max", "mean"))


def test_sums_of_nothing_are_zero(v5e):
    assert v5e.reduce("sum", np.ones((0, 3)), 0).tolist() == [0, 0, 0]
    assert np.isnan(v5e.reduce("mean", np.ones((0, 3)), 0)).all()
    with pytest.raises(ValueError, match="zero-size"):
        v5e.reduce("max", np.ones((0, 3)), 0)


def test_what_is_no_reduction_is_refused(v5e):
    with pytest.raises(ValueError, match="unknown reduction 'median'; one of: sum, max, mean"):
        v5e.reduce("median", np.ones(3))
    with pytest.raises(ValueError, match="an array of 1 dimensions has no axis 1"):
        v5e.reduce("sum", np.ones(3), 1)
    with pytest.raises(ValueError, match=r"an axis is named twice: \(0, -2\)"):
        v5e.reduce("sum", np.ones((3, 3)), (0, -2))


def test_one_value_is_not_the_callers_own(v5e):
    given = np.ones((1, 3), np.float32)
    v5e.reduce("sum", given, 0)[:] = 5
    assert given.tolist() == [[1, 1, 1]]
