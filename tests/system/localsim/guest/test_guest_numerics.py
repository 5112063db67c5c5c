"""TPU numerics on request: float32 matrix products at the default precision from bfloat16 inputs,
against an oracle that rounds by numpy alone."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from clouds import MATRIX

from system.localsim.guest.guest_programs import package, run_python

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is not installed"
)
PROGRAM = Path(__file__).parent / "numerics_program.py"
RANDOM = np.random.default_rng(1)
LEFT = RANDOM.standard_normal((48, 96)).astype(np.float32)
RIGHT = RANDOM.standard_normal((96, 32)).astype(np.float32)
ROUNDING = 3e-7
"""Relative: what the order of float32 sums is worth."""
BFLOAT16_STEP = 2e-3
"""Relative: rounding the inputs changes a product by about this much."""


def bfloat16(array):
    """Rounded to the nearest, to even between two."""
    bits = array.astype(np.float32).view(np.uint32).astype(np.uint64)
    bits += 0x7FFF + ((bits >> 16) & 1)
    return (bits & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)


def distance(found, expected):
    return np.linalg.norm(np.asarray(found, np.float64) - expected) / np.linalg.norm(expected)


@pytest.fixture(scope="module")
def products():
    """What the program computes with TPU numerics."""
    given = json.dumps([LEFT.tolist(), RIGHT.tolist()])
    ended = run_python(PROGRAM, stdin=given, LOCALSIM_TPU_NUMERICS="1")
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


EXACT = LEFT.astype(np.float64) @ RIGHT
ROUNDED = bfloat16(LEFT) @ bfloat16(RIGHT)


@pytest.mark.parametrize("way", ["eager", "jit", "einsum", "vmap", "default by name"])
def test_a_product_at_the_default_precision_is_that_of_rounded_inputs(products, way):
    assert distance(products[way], ROUNDED) < ROUNDING
    assert distance(products[way], EXACT) > BFLOAT16_STEP / 2


def test_a_gradient_is_made_of_such_products(products):
    expected = np.ones((48, 32)) @ bfloat16(RIGHT).T
    assert distance(products["grad"], expected) < ROUNDING


@pytest.mark.parametrize("way", ["highest", "highest under jit", "highest by context"])
def test_a_precision_asked_for_by_name_is_left_alone(products, way):
    assert distance(products[way], EXACT) < ROUNDING


def test_what_is_no_product_of_float32_matrices_is_left_alone(products):
    assert distance(products["elementwise"], LEFT * np.float32(1.001)) == 0
    assert products["int32"] == [[5, 14], [14, 50]]


def test_bfloat16_products_are_as_before(products):
    assert distance(products["bfloat16"], ROUNDED) < 4 * BFLOAT16_STEP


@MATRIX
def test_without_the_switch_products_are_exact_to_float32():
    given = json.dumps([LEFT.tolist(), RIGHT.tolist()])
    ended = run_python(PROGRAM, "jit", stdin=given, LOCALSIM_TPU_NUMERICS="0")
    assert distance(json.loads(ended.stdout)["jit"], EXACT) < ROUNDING


def test_another_version_of_jax_is_refused_in_one_line(tmp_path):
    package(tmp_path, {"jax/version.py": "__version__ = '0.9.1'", "jax/_src/lax/lax.py": ""})
    program = "import jax.version, jax._src.lax.lax; print('ran')"
    ended = run_python("-c", program, path=[tmp_path], LOCALSIM_TPU_NUMERICS="1")
    assert (ended.returncode, ended.stdout) == (1, "")
    (line,) = ended.stderr.splitlines()
    assert "not 0.9.1" in line
    assert run_python("-c", program, path=[tmp_path]).stdout == "ran\n"
