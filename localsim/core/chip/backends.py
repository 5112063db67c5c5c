"""Chooses who multiplies: numpy's BLAS, or XLA where the processor multiplies bfloat16.

The choice depends on the machine, on the shape, and on whether the program has imported JAX itself
when it comes to its first large product; never on a measurement at run time: the workers of a slice
choose alike, and so does the same program tomorrow. LOCALSIM_MATMUL forces one.

On a simulated worker it is always numpy: JAX would open the chips that the program holds, start
threads on every core beside those of the other workers, and cost a job's start half a second.
"""

import os
import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from localsim.guest.localsim_chips.holding import DOOR

VARIABLE = "LOCALSIM_MATMUL"
LEAST_SIDE = 16
"""m and n from which JAX is asked: it adds the products of a vector in one chain of float32."""


class LeastProducts(NamedTuple):
    """m x k x n from which JAX pays, where the program has imported it itself, and elsewhere."""

    is_imported: int
    is_not: int


FAST: Mapping[str, LeastProducts] = MappingProxyType(
    {
        "amx_bf16": LeastProducts(1 << 30, 1 << 30),
        "avx512_bf16": LeastProducts(1 << 33, 1 << 36),
    }
)
"""By flag of the processor, the fastest first.

AMX: below 1024 of each side, to compile costs more than it saves. AVX-512's bfloat16: measured,
products take 0.72 to 0.86 of the time that float32 of a BLAS takes, from 2048 of each side on; to
import JAX takes half a second, which few products of 4096 save, and only many of 2048.
"""
_LEAST_OF_ALL = min(least.is_imported for least in FAST.values())
_CPUINFO = Path("/proc/cpuinfo")


@cache
def backend_name() -> str:
    """Return the backend of large products in this process, numpy or jax, not yet imported."""
    return choose_backend(os.environ, has_jax=find_spec("jax") is not None, cpu_flags=cpu_flags())


def backend_of(left: tuple[int, ...], right: tuple[int, ...]) -> str:
    """Return the backend of a product of these shapes; JAX multiplies no batches and no vectors."""
    if len(left) != 2 or len(right) != 2 or min(left[0], right[1]) < LEAST_SIDE:
        return "numpy"
    products = left[0] * left[1] * right[1]
    if products < _LEAST_OF_ALL or products < least_products_here():
        return "numpy"
    return backend_name()


@cache
def least_products_here() -> int:
    """Return from how many products on JAX is asked in this process, as least_products."""
    return least_products(os.environ, cpu_flags(), is_imported="jax" in sys.modules)


def least_products(environ: Mapping[str, str], flags: frozenset[str], *, is_imported: bool) -> int:
    """Return m x k x n from which JAX is asked on such a processor; less where it is forced."""
    for flag, least in FAST.items():
        if flag in flags and not environ.get(VARIABLE):
            return least.is_imported if is_imported else least.is_not
    return _LEAST_OF_ALL


def choose_backend(environ: Mapping[str, str], *, has_jax: bool, cpu_flags: frozenset[str]) -> str:
    """Return numpy or jax; raises ValueError when LOCALSIM_MATMUL asks for what cannot be."""
    forced = environ.get(VARIABLE, "")
    if forced not in ("", "numpy", "jax"):
        raise ValueError(f"{VARIABLE} is {forced!r}: numpy or jax")
    obstacle = _obstacle(environ, has_jax=has_jax)
    if forced == "jax" and obstacle:
        raise ValueError(f"{VARIABLE}=jax: {obstacle}")
    return forced or ("jax" if cpu_flags & FAST.keys() and not obstacle else "numpy")


@cache
def cpu_flags() -> frozenset[str]:
    """Return the flags of /proc/cpuinfo; empty without that file."""
    try:
        lines = _CPUINFO.read_text("ascii", "replace").splitlines()
    except OSError:
        return frozenset()
    return next(
        (frozenset(line.split()) for line in lines if line.startswith("flags")), frozenset()
    )


def _obstacle(environ: Mapping[str, str], *, has_jax: bool) -> str:
    """Why JAX cannot multiply here, or nothing."""
    if not has_jax:
        return "JAX is not installed: pip install 'tpuctl[jax]'"
    if DOOR in environ:
        return "on a worker JAX would open the chips that the program holds: unset it"
    if "cpu" not in (environ.get("JAX_PLATFORMS") or "cpu"):
        return f"JAX_PLATFORMS={environ['JAX_PLATFORMS']} leaves out the processor: add cpu"
    return ""
