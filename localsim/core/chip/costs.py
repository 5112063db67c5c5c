"""What an operation costs the chip, by the performance model; each shape is modelled once."""

from dataclasses import replace
from functools import lru_cache

from localsim.core.chip.counters import Counters
from localsim.core.chip.mxu import PASSES
from localsim.core.numbers.formats import format_of
from tpuctl.perfmodel import chip as model

_KNOWN = 4096
"""How many costs are cached; a program has few shapes, and uses them in every step."""


@lru_cache(_KNOWN)
def matmul_cost(
    generation: str,
    shape: tuple[int, int, int, int],
    dtype: str,
    hbm_bytes: int,
    passes: int = 1,
) -> Counters:
    """[batch, m, k] x [batch, k, n] by (batch, m, k, n); nothing where there is nothing to add.

    `dtype` is what an operand holds, `hbm_bytes` what crosses HBM of operands and result. Of more
    than one pass, each is a product of bfloat16 parts: six of them are the model's f32.
    """
    batch, m, k, n = shape
    if not all(shape):
        return Counters()
    kind, batches = format_of(dtype).model_dtype, float(batch)
    if passes > 1:
        kind, batches = "f32", batch * passes / max(PASSES.values())
    estimate = model.matmul(generation, m, k, n, dtype=kind, batch=batches, hbm_bytes=hbm_bytes)
    cost = Counters(
        flops=2 * batch * m * k * n,
        hbm_bytes=hbm_bytes,
        mxu_busy_s=estimate.terms["compute"],
        modelled_s=estimate.value_s,
    )
    return with_energy(generation, cost, dtype, passes)


@lru_cache(_KNOWN)
def elementwise_cost(
    generation: str, read_bytes: int, written_bytes: int, operations: int
) -> Counters:
    """Return the cost of one pass of the vector unit; bytes are those that cross HBM."""
    estimate = model.elementwise(generation, read_bytes, written_bytes, operations)
    cost = Counters(hbm_bytes=read_bytes + written_bytes, modelled_s=estimate.value_s)
    return with_energy(generation, cost)


@lru_cache(_KNOWN)
def dma_cost(generation: str, size_bytes: int) -> Counters:
    """Return the cost of a copy from HBM to VMEM, or back."""
    estimate = model.dma(generation, size_bytes)
    cost = Counters(hbm_bytes=size_bytes, modelled_s=estimate.value_s)
    return with_energy(generation, cost)


def with_energy(generation: str, cost: Counters, dtype: str = "bf16", passes: int = 1) -> Counters:
    """Add the energy in joules: of products of `dtype` operands, of bytes and of time.

    Of more than one pass, each is of products of bfloat16.
    """
    estimate = model.energy(
        generation,
        macs=passes * cost.flops // 2,
        hbm_bytes=cost.hbm_bytes,
        ici_bytes=cost.ici_bytes,
        seconds=cost.modelled_s,
        dtype="bf16" if passes > 1 else format_of(dtype).model_dtype,
    )
    return replace(cost, energy_j=estimate.value_j)
