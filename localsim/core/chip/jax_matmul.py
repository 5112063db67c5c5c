"""Matrix products by XLA on the processor: several times BLAS where that multiplies bfloat16.

Its instructions take a subnormal operand, product or sum for a zero, as XLA does on a TPU; numpy
keeps them. Infinities and NaNs come out where numpy has them. int8 is exact. The first product of a
process imports JAX and the first of a shape is compiled: a second, and tenths of one. JAX starts
threads, so a process that has multiplied is not to fork.
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localsim.core.chip.backends import VARIABLE, cpu_flags

_SUMMED_K = 4096 if "amx_bf16" in cpu_flags() else 512
"""So many products are summed by one chain of instructions; past that sums drift beyond 3e-7.

AVX-512 adds two products at a time to a sum. AMX adds thirty-two, summed before, by its definition:
an emulation of it in numpy is 2.1e-7 off at 4096 products, 3.9e-7 at 16,384.
"""


def matmul(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """[m, k] x [k, n] of float32, which are rounded to bfloat16 here, or of int8; as mxu.matmul."""
    try:
        jax: Any = importlib.import_module("jax")
    except ImportError as error:
        raise ValueError(f"JAX cannot be imported ({error}): set {VARIABLE}=numpy") from error
    product = _whole_product() if left.dtype == np.int8 else _product()
    with _whatever_the_program_has_set(jax):
        return np.array(product(left, right))


@contextlib.contextmanager
def _whatever_the_program_has_set(jax: Any) -> Iterator[None]:
    """Its own arrays may be elsewhere, and NaNs or copies forbidden to them."""
    (processor, *_) = jax.devices("cpu")
    with jax.default_device(processor), jax.debug_nans(False), jax.transfer_guard("allow"):  # noqa: FBT003 -- JAX's signature
        yield


@cache
def _product() -> Callable[[Any, Any], Any]:
    jax: Any = importlib.import_module("jax")
    jnp, slice_of = jax.numpy, jax.lax.dynamic_slice_in_dim

    def product(left: Any, right: Any) -> Any:
        left, right = left.astype(jnp.bfloat16), right.astype(jnp.bfloat16)
        blocks = max(0, left.shape[1] - 1) // _SUMMED_K
        rest = left.shape[1] - blocks * _SUMMED_K

        def add(block: Any, total: Any) -> Any:
            start = rest + block * _SUMMED_K
            columns = slice_of(left, start, _SUMMED_K, axis=1)
            return total + dot(columns, slice_of(right, start, _SUMMED_K, axis=0))

        total = dot(left[:, :rest], right[:rest])
        return jax.lax.fori_loop(0, blocks, add, total) if blocks else total

    def dot(left: Any, right: Any) -> Any:
        return jnp.matmul(left, right, precision="default", preferred_element_type=jnp.float32)

    return jax.jit(product)  # type: ignore[no-any-return]


@cache
def _whole_product() -> Callable[[Any, Any], Any]:
    jax: Any = importlib.import_module("jax")

    def product(left: Any, right: Any) -> Any:
        return jax.numpy.matmul(left, right, preferred_element_type=jax.numpy.int32)

    return jax.jit(product)  # type: ignore[no-any-return]
