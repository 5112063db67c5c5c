"""Which backend multiplies, and that one with JAX gives what numpy gives."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from localsim.core.chip import backends, jax_matmul, mxu
from localsim.core.numbers.numerics import bfloat16

PROGRAM = Path(__file__).with_name("matmul_program.py")
NEW, OLD = frozenset({"fma", "avx512_bf16", "amx_bf16"}), frozenset({"fma", "avx512_bf16"})
OLDEST = frozenset({"fma", "avx512f"})
WORKER = {"LOCALSIM_CHIPS": "127.0.0.1:9"}
STRICT = {"JAX_DEBUG_NANS": "1", "JAX_TRANSFER_GUARD": "disallow", "JAX_ENABLE_X64": "1"}
"""What a program may have set for arrays of its own."""
BAR = 3e-7

needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is not installed"
)


@pytest.mark.parametrize(
    ("environ", "has_jax", "cpu_flags", "expected"),
    [
        ({}, True, NEW, "jax"),
        ({}, True, OLD, "jax"),
        ({}, True, OLDEST, "numpy"),  # it would have to widen bfloat16
        ({}, False, NEW, "numpy"),
        (WORKER, True, NEW, "numpy"),  # JAX would open the chips
        ({"LOCALSIM_MATMUL": "numpy"}, True, NEW, "numpy"),
        ({"LOCALSIM_MATMUL": "jax"}, True, OLDEST, "jax"),
        ({"LOCALSIM_MATMUL": ""}, True, NEW, "jax"),
        ({"JAX_PLATFORMS": "cuda"}, True, NEW, "numpy"),
        ({"JAX_PLATFORMS": "cuda,cpu"}, True, NEW, "jax"),
    ],
)
def test_the_machine_and_one_variable_choose(environ, has_jax, cpu_flags, expected):
    assert backends.choose_backend(environ, has_jax=has_jax, cpu_flags=cpu_flags) == expected


@pytest.mark.parametrize(
    ("environ", "has_jax", "reason"),
    [
        ({"LOCALSIM_MATMUL": "cuda"}, True, "LOCALSIM_MATMUL is 'cuda': numpy or jax"),
        ({"LOCALSIM_MATMUL": "jax"}, False, r"pip install 'tpuctl\[jax\]'"),
        ({"LOCALSIM_MATMUL": "jax"} | WORKER, True, "JAX would open the chips"),
        ({"LOCALSIM_MATMUL": "jax", "JAX_PLATFORMS": "tpu"}, True, "JAX_PLATFORMS=tpu leaves out"),
    ],
)
def test_what_cannot_be_forced_is_refused(environ, has_jax, reason):
    with pytest.raises(ValueError, match=reason):
        backends.choose_backend(environ, has_jax=has_jax, cpu_flags=NEW)


@pytest.mark.parametrize(
    ("left", "right", "is_asked"),
    [
        ((1024, 1024), (1024, 1024), True),
        ((1024, 1023), (1023, 1024), False),
        ((16, 65536), (65536, 1024), True),
        ((1, 65536), (65536, 32768), False),  # JAX would add in one long chain
        ((32768, 65536), (65536, 15), False),
        ((4, 1024, 1024), (4, 1024, 1024), False),  # numpy is faster with batches
    ],
)
def test_the_shape_alone_says_whether_another_backend_is_asked(monkeypatch, left, right, is_asked):
    monkeypatch.setattr(backends, "backend_name", lambda: "jax")
    monkeypatch.setattr(backends, "least_products_here", lambda: 1 << 30)
    assert backends.backend_of(left, right) == ("jax" if is_asked else "numpy")


@pytest.mark.parametrize(
    ("cpu_flags", "is_imported", "environ", "side"),
    [
        (NEW, False, {}, 1024),
        (OLD, True, {}, 2048),
        (OLD, False, {}, 4096),  # an import of half a second pays later
        (OLD, False, {"LOCALSIM_MATMUL": "jax"}, 1024),
    ],
)
def test_jax_is_asked_from_the_side_on_from_which_it_pays(cpu_flags, is_imported, environ, side):
    least = backends.least_products(environ, cpu_flags, is_imported=is_imported)
    assert least == side**3


def test_an_import_between_two_products_does_not_change_the_bits_of_the_second(monkeypatch):
    monkeypatch.setattr(backends, "cpu_flags", lambda: OLD)
    monkeypatch.delenv("LOCALSIM_MATMUL", raising=False)
    monkeypatch.setattr(sys, "modules", {n: m for n, m in sys.modules.items() if n != "jax"})
    backends.least_products_here.cache_clear()
    before = backends.least_products_here()
    sys.modules["jax"] = sys
    assert backends.least_products_here() == before == 4096**3
    backends.least_products_here.cache_clear()
    assert backends.least_products_here() == 2048**3
    backends.least_products_here.cache_clear()


def run(directory, operands, *options, **variables):
    """The products by a process of its own, and what it says."""
    given, written = directory / "given.npz", directory / "written.npz"
    named = {}
    for number, (left, right) in enumerate(operands):
        named |= {f"left{number}": left, f"right{number}": right}
    np.savez(given, **named)
    environ = {name: value for name, value in os.environ.items() if name != backends.VARIABLE}
    argv = [sys.executable, "-W", "error", str(PROGRAM), str(given), str(written), *options]
    done = subprocess.run(argv, env=environ | variables, capture_output=True, text=True, check=True)
    return np.load(written), done.stdout.split()


@needs_jax
def test_on_a_worker_a_large_product_does_not_import_jax(tmp_path):
    ones = np.ones((1024, 1024), np.float32)
    products, said = run(tmp_path, [(ones, ones)], "with-amx", **WORKER)
    assert said == ["numpy", "False"]
    assert (products["product0"] == 1024).all()


@needs_jax
def test_nothing_imports_jax_before_the_first_large_product(tmp_path):
    small = np.ones((100, 100), np.float32)
    _, said = run(tmp_path, [(small, small)], LOCALSIM_MATMUL="jax")
    assert said == ["jax", "False"]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def special(*shape):
    """Some that are not finite, and none so great that an order of summing would overflow."""
    values = normal(*shape)
    values[1, 2], values[3, 4] = np.inf, -np.inf
    values[5, 6], values[5, 7] = np.inf, -np.inf
    values[7, 8] = np.array(0x7F800001, np.uint32).view(np.float32)
    return values


def integers(*shape, seed=0):
    return np.random.default_rng(seed).integers(-128, 128, shape, np.int8)


REAL = {
    "one": (normal(1, 1), normal(1, 1, seed=1)),
    "a block": (normal(30, 512), normal(512, 40, seed=1)),
    "a block less one": (normal(30, 511), normal(511, 40, seed=1)),
    "a block and one": (normal(30, 513), normal(513, 40, seed=1)),
    "long": (normal(64, 16384), normal(16384, 64, seed=1)),
    "long and positive": (np.abs(normal(64, 4096)), np.abs(normal(4096, 64, seed=1))),
    "longer and positive": (np.abs(normal(64, 8192)), np.abs(normal(8192, 64, seed=1))),
    "with its own transpose": (normal(64, 8192), normal(64, 8192).T),
    "transposed": (normal(1000, 300).T, normal(200, 1000, seed=1).T),
    "backwards": (normal(90, 700)[::-1, ::-1], normal(1400, 50, seed=1)[::2]),
    "empty": (normal(0, 5), normal(5, 3)),
    "no products": (normal(3, 0), normal(0, 2)),
}
WHOLE = {
    "extreme": (np.full((9, 4096), -128, np.int8), np.full((4096, 7), -128, np.int8)),
    "extreme, an odd one": (
        np.insert(np.full((9, 4096), -128, np.int8), 0, 1, axis=1),
        np.insert(np.full((4096, 7), 127, np.int8), 0, 1, axis=0),
    ),
    "any": (integers(100, 3000), integers(3000, 70, seed=1)),
    "wrapping": (np.full((2, 131_072), -128, np.int8), np.full((131_072, 2), -128, np.int8)),
}
SPECIAL = {
    "right": (normal(40, 600), special(600, 50)),
    "left": (special(64, 600), normal(600, 50)),
}


@pytest.fixture(scope="module")
def jax_products(tmp_path_factory):
    """By name, whatever their size."""
    pairs = REAL | {f"whole {name}": pair for name, pair in WHOLE.items()}
    pairs |= {f"special {name}": pair for name, pair in SPECIAL.items()}
    directory = tmp_path_factory.mktemp("jax")
    products, _ = run(directory, pairs.values(), "any-size", LOCALSIM_MATMUL="jax", **STRICT)
    return {name: products[f"product{number}"] for number, name in enumerate(pairs)}


def test_a_jax_that_cannot_be_imported_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ValueError, match="cannot be imported .*: set LOCALSIM_MATMUL=numpy"):
        jax_matmul.matmul(np.ones((1, 1), np.float32), np.ones((1, 1), np.float32))


@needs_jax
@pytest.mark.parametrize("name", REAL)
def test_jax_is_as_exact_as_numpy(jax_products, name):
    left, right = (bfloat16(each).astype(np.float64) for each in REAL[name])
    product, exact = jax_products[name], left @ right
    assert (product.shape, product.dtype) == (exact.shape, np.float32)
    assert np.linalg.norm(product - exact) <= BAR * np.linalg.norm(exact)


@needs_jax
@pytest.mark.parametrize("name", WHOLE)
def test_integers_are_exact_with_jax(jax_products, name):
    left, right = (each.astype(np.int64) for each in WHOLE[name])
    exact = (left @ right + 2**31) % 2**32 - 2**31
    assert jax_products[f"whole {name}"].dtype == np.int32
    assert np.array_equal(jax_products[f"whole {name}"], exact)


@needs_jax
@pytest.mark.parametrize("name", SPECIAL)
def test_infinities_and_nans_are_where_numpy_has_them(jax_products, name):
    ours, theirs = mxu.matmul(*SPECIAL[name]), jax_products[f"special {name}"]
    assert not np.isfinite(ours).all()
    assert np.array_equal(
        np.where(np.isfinite(ours), 0, ours),
        np.where(np.isfinite(theirs), 0, theirs),
        equal_nan=True,
    )


@needs_jax
def test_elsewhere_large_products_go_through_it_and_leave_the_float_mode_of_numpy_alone(tmp_path):
    left, right = normal(1024, 1024), normal(1024, 1024, seed=1)
    products, said = run(tmp_path, [(left, right)], "with-amx")
    assert said == ["jax", "True"]
    exact = bfloat16(left).astype(np.float64) @ bfloat16(right)
    assert np.linalg.norm(products["product0"] - exact) <= BAR * np.linalg.norm(exact)
    assert products["subnormal"] == 2**-132
