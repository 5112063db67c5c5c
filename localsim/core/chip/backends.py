"""Chooses who multiplies: numpy's BLAS, or XLA where the processor multiplies matrices.

The choice depends on the machine and on the shape alone, never on a measurement: the workers of a
slice choose alike, and so does the same program tomorrow. LOCALSIM_MATMUL forces one.

On a simulated worker it is always numpy: JAX would open the chips that the program holds, start
threads on every core beside those of the other workers, and cost a job's start half a second.
"""

import os
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from localsim.guest.localsim_chips.holding import DOOR

VARIABLE = "LOCALSIM_MATMUL"
LEAST_PRODUCTS = 1 << 30
"""m x k x n from which JAX is asked: below 1024 of each, to compile costs more than it saves."""

_FAST = "amx_bf16"
"""With AVX-512's bfloat16 alone JAX is hardly faster than float32 of a BLAS."""
_CPUINFO = Path("/proc/cpuinfo")


@cache
def backend_name() -> str:
    """Return the backend of large products in this process, numpy or jax, not yet imported."""
    return choose_backend(os.environ, has_jax=find_spec("jax") is not None, cpu_flags=cpu_flags())


def backend_of(left: tuple[int, ...], right: tuple[int, ...]) -> str:
    """Return the backend of a product of these shapes; JAX multiplies no batches."""
    if len(left) == len(right) == 2 and left[0] * left[1] * right[1] >= LEAST_PRODUCTS:
        return backend_name()
    return "numpy"


def choose_backend(environ: Mapping[str, str], *, has_jax: bool, cpu_flags: frozenset[str]) -> str:
    """Return numpy or jax; raises ValueError when LOCALSIM_MATMUL asks for what cannot be."""
    forced = environ.get(VARIABLE, "")
    if forced not in ("", "numpy", "jax"):
        raise ValueError(f"{VARIABLE} is {forced!r}: numpy or jax")
    obstacle = _obstacle(environ, has_jax=has_jax)
    if forced == "jax" and obstacle:
        raise ValueError(f"{VARIABLE}=jax: {obstacle}")
    return forced or ("jax" if _FAST in cpu_flags and not obstacle else "numpy")


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
