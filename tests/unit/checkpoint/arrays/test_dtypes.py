"""Every dtype: its bytes as stored, its name in a file, what its bits amount to."""

import json
import warnings

import numpy as np
import pytest
import safetensors
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tpuctl.checkpoint.arrays import dtypes, statistics
from tpuctl.checkpoint.arrays.dtypes import DTYPES
from tpuctl.errors import UsageError

OWN = sorted(name for name, dtype in DTYPES.items() if not dtype.is_foreign)
FOREIGN = sorted(DTYPES.keys() - set(OWN))
SMALL = sorted(name for name, dtype in DTYPES.items() if dtype.bits <= 16 and name != "bool")


def stored(name, array):
    buffer = np.zeros(dtypes.size_bytes(name, array.size), np.uint8)
    dtypes.write_into(buffer, name, dtypes.raw_view(array))
    return buffer.tobytes()


def test_numbers_are_stored_little_endian_in_c_order():
    columns = np.array([[1, 2], [3, 4]], ">i2").T
    assert stored("int16", columns) == bytes([1, 0, 3, 0, 2, 0, 4, 0])


@given(
    st.sampled_from(OWN).flatmap(
        lambda name: arrays.arrays(
            np.dtype(name).newbyteorder(">"),
            arrays.array_shapes(min_dims=0, min_side=0, max_side=4),
        )
    ),
    st.integers(1, 3),
)
def test_whatever_the_strides_the_bytes_are_those_of_a_contiguous_copy(array, step):
    strided = array.T[::step] if array.ndim else array
    little = strided.astype(strided.dtype.newbyteorder("<"))
    assert stored(array.dtype.name, strided) == little.tobytes()


@given(st.lists(st.integers(-8, 7), max_size=9))
def test_four_bits_are_packed_low_half_first_and_unpacked_again(values):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    packed = dtypes.pack(np.array(values, ml_dtypes.int4))
    assert packed.size == dtypes.size_bytes("int4", len(values))
    if len(values) == 1:
        assert packed[0] == values[0] & 15
    unpacked = dtypes.unpack(packed, len(values))
    assert unpacked.view(ml_dtypes.int4).tolist() == values


def test_the_upper_half_of_four_bits_in_memory_means_nothing():
    assert dtypes.pack(np.array([0xF1, 0xA2, 0x73], np.uint8)).tolist() == [0x21, 0x03]


@pytest.mark.parametrize("name", FOREIGN)
def test_a_type_of_ml_dtypes_is_handled_as_its_bits(name):
    pytest.importorskip("ml_dtypes")
    array = np.array([[1, 0, 2], [2, 0, 1]], dtypes.numpy_dtype(name))[:, ::2]
    raw = dtypes.raw_view(array)
    assert np.shares_memory(raw, array)
    assert raw.dtype == dtypes.raw_dtype(name)
    assert dtypes.name_of(array.dtype) == name
    assert raw.view(dtypes.numpy_dtype(name)).tolist() == array.tolist()


@pytest.mark.parametrize(
    "name", sorted(name for name, dtype in DTYPES.items() if dtype.safetensors)
)
def test_safetensors_knows_what_a_file_calls_it(name):
    size = DTYPES[name].bits // 8
    tensor = {"dtype": DTYPES[name].safetensors, "shape": [3], "data_offsets": [0, 3 * size]}
    header = json.dumps({"w": tensor}).encode()
    data = len(header).to_bytes(8, "little") + header + bytes(3 * size)
    ((path, found),) = safetensors.deserialize(data)
    assert (path, found["dtype"], found["shape"]) == ("w", DTYPES[name].safetensors, [3])


@pytest.mark.parametrize("dtype", ["O", "U3", "S3", "M8[s]", "m8[s]", "c16", "g", "V2", "i4,f4"])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(UsageError, match="cannot be saved"):
        dtypes.name_of(np.dtype(dtype))


def test_without_ml_dtypes_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    with pytest.raises(UsageError) as refused:
        dtypes.numpy_dtype("bfloat16")
    assert refused.value.hint == "pip install --upgrade ml_dtypes"


@pytest.mark.parametrize("shape", [(), (5,), (3, 1000)])
def test_an_aligned_array_is_writable_and_begins_where_xla_wants_it(shape):
    array = dtypes.allocate_aligned(shape, np.dtype("<u2"))
    array[...] = 7
    assert (array.shape, array.ctypes.data % 64) == (shape, 0)
    assert array.flags.c_contiguous


@pytest.mark.parametrize("name", SMALL)
def test_every_bit_pattern_amounts_to_what_ml_dtypes_makes_of_it(name):
    pytest.importorskip("ml_dtypes")
    bits = np.arange(2 ** max(8, DTYPES[name].bits), dtype=f"u{max(1, DTYPES[name].bits // 8)}")
    raw = bits.view(dtypes.raw_dtype(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a NaN among them
        expected = raw.view(dtypes.numpy_dtype(name)).astype(np.float32)
    found = statistics.as_float(name, raw)
    assert found.dtype == np.float32
    assert np.array_equal(found, expected, equal_nan=True)


def test_larger_numbers_become_float64_and_complex_ones_stay():
    assert statistics.as_float("int32", np.array([2**31 - 1], "<i4")).tolist() == [2**31 - 1]
    assert statistics.as_float("bool", np.array([True])).tolist() == [1.0]
    assert statistics.as_float("complex64", np.array([1j], "<c8")).dtype == np.complex64
