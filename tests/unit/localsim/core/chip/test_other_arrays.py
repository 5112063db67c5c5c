"""Arrays of other libraries: whatever has __array__ is taken everywhere, JAX's arrays too."""

import importlib.util

import ml_dtypes
import numpy as np
import pytest

from localsim.core import Chip, Mesh
from localsim.core.numbers.fp8 import decode_fp8, encode_fp8
from localsim.core.numbers.int8 import int8_scale, quantize_int8
from localsim.core.numbers.numerics import bfloat16, float16

VALUES = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)


class Wrapped:
    """An array of a library of which nothing is known but numpy's protocol."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype, copy=copy)


def jax_array(values):
    return pytest.importorskip("jax").numpy.asarray(values)


@pytest.fixture(params=["wrapped", "jax"])
def other(request):
    if request.param == "jax" and importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    return {"wrapped": Wrapped, "jax": jax_array}[request.param]


def test_every_operation_of_a_chip_takes_them(other):
    chip, plain = Chip("v5e"), Chip("v5e")
    whole = VALUES.astype(np.int8)
    codes = encode_fp8(VALUES, "e4m3")
    for ours, theirs in [(VALUES, other(VALUES)), (VALUES > 0, other(VALUES > 0))]:
        assert np.array_equal(chip.put(theirs), plain.put(ours))
        assert np.array_equal(chip.matmul(theirs, ours), plain.matmul(ours, ours))
        assert np.array_equal(chip.matmul(ours, theirs), plain.matmul(ours, ours))
        assert np.array_equal(
            chip.elementwise(np.add, theirs, ours), plain.elementwise(np.add, ours, ours)
        )
        assert np.array_equal(chip.reduce("sum", theirs, 0), plain.reduce("sum", ours, 0))
    for dtype, given in (("int8", whole), ("e4m3", codes)):
        assert np.array_equal(
            chip.matmul(other(given), other(given), dtype=dtype),
            plain.matmul(given, given, dtype=dtype),
        )
    assert chip.counters == plain.counters


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_of_half_the_bytes_too(other, kind):
    chip, narrow = Chip("v5e"), VALUES.astype(kind)
    dtype = {np.float16: "f16", ml_dtypes.bfloat16: "bf16"}[kind]
    assert np.array_equal(chip.put(other(narrow), dtype), narrow.astype(np.float32))
    before = chip.counters
    chip.elementwise(lambda x: x, other(narrow), dtype=dtype)
    assert (chip.counters - before).hbm_bytes == 2 * narrow.nbytes
    expected = chip.matmul(narrow.astype(np.float32), narrow.astype(np.float32))
    assert np.array_equal(chip.matmul(other(narrow), narrow, dtype=dtype), expected)


def test_collectives_take_them(other):
    with Mesh.connect({"TPU_ACCELERATOR_TYPE": "v5litepod-4"}) as mesh:
        for values in (VALUES, VALUES > 0, VALUES.astype(np.float16)):
            ours, theirs = [values] * 4, [other(values)] * 4
            for collective in (mesh.all_reduce, mesh.all_gather, mesh.all_to_all, mesh.permute):
                assert np.array_equal(collective(theirs), collective(ours))
            assert np.array_equal(mesh.reduce_scatter(theirs), mesh.reduce_scatter(ours))


def test_the_formats_take_them(other):
    assert np.array_equal(bfloat16(other(VALUES)), bfloat16(VALUES))
    assert np.array_equal(float16(other(VALUES)), VALUES.astype(np.float16))
    codes = encode_fp8(VALUES, "e5m2")
    assert np.array_equal(encode_fp8(other(VALUES), "e5m2"), codes)
    assert np.array_equal(decode_fp8(other(codes), "e5m2"), decode_fp8(codes, "e5m2"))
    scale = int8_scale(VALUES)
    assert np.array_equal(int8_scale(other(VALUES)), scale)
    assert np.array_equal(quantize_int8(other(VALUES), other(scale)), quantize_int8(VALUES, scale))


def test_what_is_put_is_not_the_memory_of_the_owner():
    given = VALUES.copy()
    held = Chip("v5e").put(Wrapped(given))
    given[:] = 0
    assert np.array_equal(held, VALUES)
