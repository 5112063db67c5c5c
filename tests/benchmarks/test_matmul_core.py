"""The matrix unit beside numpy's float32 product of the same shape: `pytest -m benchmark -s`.

In turns in one process; the rounding of both operands counts. bf16 in the backend of numpy, and in
that of JAX where it is installed, which is several times faster on processors with AMX. A product
with its own transpose is added in shorter blocks, which take longer.
"""

import importlib.util
import statistics
import time

import numpy as np
import pytest

from benchmarks.measure import keep
from localsim.core.chip import backends, mxu
from localsim.core.numbers.numerics import bfloat16

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

BLAS_SPINS_S = 0.05
"""The threads of numpy's BLAS keep their cores for a while after a product: not at JAX's cost."""
ROUNDS = {1024: 41, 2048: 15, 4096: 9}
"""By side: what is short is disturbed more."""
TARGETS = {
    "numpy": "at most 1.15 times numpy's float32",
    "jax": "0.5 times numpy's float32 with AMX; less than 1 from 2048 on with AVX-512's bfloat16",
}


@pytest.mark.parametrize("side", ROUNDS)
@pytest.mark.parametrize("backend", TARGETS)
def test_bf16_beside_float32(monkeypatch, backend, side):
    if backend == "jax" and importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    monkeypatch.setattr(backends, "backend_name", lambda: backend)
    random = np.random.default_rng(side)
    left, right = random.standard_normal((2, side, side), np.float32)
    compare(
        f"bf16 matmul of {side} with {backend}",
        TARGETS[backend],
        lambda: mxu.matmul(left, right),
        lambda: left @ right,
        rounds=ROUNDS[side],
        pause_s=BLAS_SPINS_S if backend == "jax" else 0.0,
        error=error(left, right),
        chosen_here=backend == chosen(side),
    )


@pytest.mark.parametrize("form", ["int8", "e4m3"])
def test_other_formats_beside_float32(monkeypatch, form):
    monkeypatch.setattr(backends, "backend_name", lambda: "numpy")
    side = 2048
    random = np.random.default_rng(side)
    left, right = random.standard_normal((2, side, side), np.float32)
    kind = np.int8 if form == "int8" else np.uint8
    coded = random.integers(0, 100, (side, side), kind)
    compare(
        f"{form} matmul of {side} with numpy",
        "no target",
        lambda: mxu.matmul(coded, coded, formats=(form, form)),
        lambda: left @ right,
        rounds=ROUNDS[side],
    )


@pytest.mark.parametrize("side", [1024, 2048])
def test_a_product_with_its_own_transpose(monkeypatch, side):
    monkeypatch.setattr(backends, "backend_name", lambda: "numpy")
    left, other = np.random.default_rng(side).standard_normal((2, side, side), np.float32)
    compare(
        f"x @ x.T of {side} with numpy",
        "no target; beside a product of two arrays",
        lambda: mxu.matmul(left, left.T),
        lambda: mxu.matmul(left, other),
        rounds=ROUNDS[side],
        peer_name="two_arrays_s",
        error=error(left, left.T),
    )


@pytest.mark.parametrize("precision", ["high", "highest"])
def test_a_higher_precision_beside_float32(monkeypatch, precision):
    monkeypatch.setattr(backends, "backend_name", lambda: "numpy")
    side = 1024
    left, right = np.random.default_rng(side).standard_normal((2, side, side), np.float32)
    compare(
        f"{precision} matmul of {side} with numpy",
        "no target",
        lambda: mxu.matmul(left, right, precision=precision),
        lambda: left @ right,
        rounds=ROUNDS[side],
    )


def test_extreme_integers_are_exact():
    coded = np.full((1024, 4096), -128, np.int8)
    assert (mxu.matmul(coded, coded.T, formats=("int8", "int8")) == 4096 * 2**14).all()


def compare(name, target, ours, peer, *, rounds, pause_s=0.0, peer_name="float32_s", **figures):
    """Measure both in turns; keep the ratio of their medians, figures, and the seconds of each."""
    ours_s, peer_s = in_turns(ours, peer, rounds=rounds, pause_s=pause_s)
    ratio = round(statistics.median(ours_s) / statistics.median(peer_s), 3)
    keep(name, target, ratio=ratio, **figures, ours_s=ours_s, **{peer_name: peer_s})


def in_turns(ours, peer, *, rounds, pause_s=0.0):
    """Seconds of each, once to warm up and then `rounds` times."""
    found = ([], [])
    for round_number in range(rounds + 1):
        for run, times in zip((ours, peer), found, strict=True):
            time.sleep(pause_s)
            began = time.perf_counter()
            run()
            if round_number:
                times.append(time.perf_counter() - began)
    return found


def error(left, right):
    """Of some rows, beside float64 on the rounded operands; at most 3e-7."""
    exact = bfloat16(left[:64]).astype(np.float64) @ bfloat16(right)
    found = float(np.linalg.norm(mxu.matmul(left, right)[:64] - exact) / np.linalg.norm(exact))
    assert found <= 3e-7
    return found


def chosen(side):
    """The backend of a program that has imported JAX, on this machine."""
    has_jax, flags = importlib.util.find_spec("jax") is not None, backends.cpu_flags()
    if side**3 < backends.least_products({}, flags, is_imported=True):
        return "numpy"
    return backends.choose_backend({}, has_jax=has_jax, cpu_flags=flags)
