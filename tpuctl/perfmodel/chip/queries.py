"""The questions to the model; each answer is an estimate with interval and sources."""

from collections.abc import Mapping, Sequence
from math import prod

from numpy.typing import ArrayLike

from tpuctl import catalog
from tpuctl.perfmodel.chip import collectives, gemm, memory
from tpuctl.perfmodel.chip.calibration import Spread, constants, sources, spread
from tpuctl.perfmodel.chip.estimate import Estimate
from tpuctl.perfmodel.chip.numeric import Figure, broadcast_terms, choose, maximum, minimum, size
from tpuctl.perfmodel.chip.torus import Axis, axes_of


def matmul(  # noqa: PLR0913 (the shape alone is three)
    generation: str,
    m: ArrayLike,
    k: ArrayLike,
    n: ArrayLike,
    *,
    dtype: str = "bf16",
    batch: ArrayLike = 1,
    hbm_bytes: ArrayLike | None = None,
) -> Estimate:
    """`batch` products [m, k] x [k, n] on all TensorCores of one chip.

    dtype is bf16, f32 (six passes of bfloat16), int8, fp8 or f16 (converted); a format that the
    chip does not multiply as it is has the rate of bfloat16. `terms["compute"]` is how long the
    MXUs are busy. `hbm_bytes` of operands and results cross HBM: all of them when it is None.
    """
    fitted, chip = constants(generation), catalog.generation(generation).chip
    work = gemm.MatmulWork(m, k, n, dtype, batch, hbm_bytes)
    parts = gemm.terms(fitted, chip, work)
    regular, irregular = spread("gemm regular"), spread("gemm irregular")
    is_regular = gemm.is_regular(work)
    bounds = Spread(
        low=choose(is_regular, regular.low, irregular.low),
        high=choose(is_regular, regular.high, irregular.high),
    )
    from_ = _gemm_sources(generation, chip, dtype)
    return _estimate(gemm.total(parts), gemm.peak_seconds(fitted, parts), bounds, parts, from_)


def elementwise(
    generation: str, read_bytes: ArrayLike, written_bytes: ArrayLike, operations: ArrayLike = 0
) -> Estimate:
    """Seconds of one pass of the vector unit over arrays in HBM.

    `operations` are those of the vector unit on all elements together. Raises ValueError.
    """
    chip = catalog.generation(generation).chip
    work = memory.VectorPass(read_bytes, written_bytes, operations)
    parts = memory.elementwise_terms(constants(generation), chip, work)
    return _memory_estimate(generation, parts, "elementwise")


def copy(generation: str, size_bytes: ArrayLike) -> Estimate:
    """Seconds to copy an array within one chip's HBM: every byte is read and written."""
    chip = catalog.generation(generation).chip
    parts = memory.copy_terms(constants(generation), chip, size_bytes)
    return _memory_estimate(generation, parts, "memory")


def dma(generation: str, size_bytes: ArrayLike) -> Estimate:
    """Seconds to move an array between HBM and VMEM, one way."""
    chip = catalog.generation(generation).chip
    parts = memory.dma_terms(constants(generation), chip, size_bytes)
    return _memory_estimate(generation, parts, "memory", "dma_launch_s")


def collective(
    operation: str,
    generation: str,
    axes: Sequence[Axis],
    size_bytes: ArrayLike,
    *,
    is_topology_aware: bool = False,
) -> Estimate:
    """Seconds in which the chips along `axes` exchange an array.

    operation is all_reduce, all_gather, reduce_scatter, all_to_all or permute (by one place).
    `size_bytes` is the whole array: what a chip holds before all_reduce or reduce_scatter, what it
    has after all_gather, what all hold together for all_to_all, what one sends by permute.

    The start grows with the number of chips, as it does in every public measurement: the chips are
    one ring. With `is_topology_aware` it grows with the hops along the axes; nobody has published a
    measurement of that. The bytes take the same time either way.
    """
    chip, fitted = catalog.generation(generation).chip, constants(generation)
    parts = collectives.terms(
        fitted, chip, operation, axes, size_bytes, is_topology_aware=is_topology_aware
    )
    along_axes = collectives.terms(
        fitted, chip, operation, axes, size_bytes, is_topology_aware=True
    )
    at_peak = parts["ici"] * fitted.ici_efficiency
    from_ = sources(generation, collectives.CONSTANTS)
    value, bounds = collectives.total(parts), spread("collective")
    low = minimum(value * bounds.low, collectives.total(along_axes))
    return _bounded(value, maximum(low, at_peak), value * bounds.high, parts, from_)


def all_reduce(accelerator_type: str, size_bytes: ArrayLike) -> Estimate:
    """Seconds to sum an array of `size_bytes`, one copy on every chip, over a whole slice."""
    generation = catalog.accelerator_type(accelerator_type).generation
    return collective("all_reduce", generation, axes_of(accelerator_type), size_bytes)


def dcn_all_reduce(accelerator_type: str, slices: int, size_bytes: ArrayLike) -> Estimate:
    """Seconds to sum an array over all chips of several slices, joined by the network.

    Each slice reduces and scatters, each chip sums its part with the same chip of the other slices,
    each slice gathers. Raises ValueError where the network's rate is not public.

    The network has an interval of its own, which `docs/accuracy.md` explains.
    """
    kind = catalog.accelerator_type(accelerator_type)
    chip = catalog.generation(kind.generation).chip
    part = size(size_bytes) / prod(axis.length for axis in axes_of(accelerator_type))
    parts = collectives.dcn_terms(constants(kind.generation), chip, slices, part)
    inside, bounds = all_reduce(accelerator_type, size_bytes), spread("dcn")
    return Estimate(
        value_s=inside.value_s + parts["dcn"],
        low_s=inside.low_s + parts["dcn"] * bounds.low,
        high_s=inside.high_s + parts["dcn"] * bounds.high,
        terms={**inside.terms, **parts},
        sources=(*inside.sources, *sources(kind.generation, ("dcn_efficiency",))),
    )


def _memory_estimate(
    generation: str, parts: Mapping[str, Figure], kind: str, launch: str = "launch_s"
) -> Estimate:
    at_peak = parts["memory"] * constants(generation).memory_efficiency
    from_ = sources(generation, (launch, "memory_efficiency"))
    return _estimate(memory.total(parts), at_peak, spread(kind), parts, from_)


def _estimate(
    value: Figure,
    at_peak: Figure,
    bounds: Spread,
    parts: Mapping[str, Figure],
    from_: tuple[str, ...],
) -> Estimate:
    low = maximum(value * bounds.low, at_peak)
    return _bounded(value, low, value * bounds.high, parts, from_)


def _bounded(
    value: Figure, low: Figure, high: Figure, parts: Mapping[str, Figure], from_: tuple[str, ...]
) -> Estimate:
    return Estimate(
        value_s=value,
        low_s=minimum(value, low),
        high_s=maximum(value, high),
        terms=broadcast_terms(parts, value),
        sources=from_,
    )


def _gemm_sources(generation: str, chip: catalog.Chip, dtype: str) -> tuple[str, ...]:
    names = ("launch_s", "compute_efficiency", "memory_efficiency")
    if dtype == "f16":
        return sources(generation, (*names, "conversion_bytes_per_s"))
    if dtype == "f32" or gemm.is_native(chip, dtype):
        return sources(generation, names)
    note = f"{dtype} on {generation}: no public rate, so that of bfloat16"
    return (*sources(generation, names), note)
