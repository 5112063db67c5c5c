"""The questions to the model; each answer is an estimate with interval and sources."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from numpy.typing import ArrayLike

from tpuctl import catalog
from tpuctl.perfmodel.chip import collectives, gemm, memory
from tpuctl.perfmodel.chip.calibration import (
    Constants,
    Spread,
    at_clock,
    constants,
    sources,
    spread,
)
from tpuctl.perfmodel.chip.chip_part import chip_share, part_count
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
    result_dtype: str | None = None,
    precision: str | None = None,
    batch: ArrayLike = 1,
    hbm_bytes: ArrayLike | None = None,
    part: str = "chip",
    clock: str = "default",
) -> Estimate:
    """`batch` products [m, k] x [k, n] on a chip, or a part of it: device or tensorcore.

    dtype is bf16, f32, int8, fp8 or f16 (converted); a format that the chip does not multiply as it
    is has the rate of bfloat16. precision is that of jax.lax: default, high and highest multiply
    f32 and f16 in one, three and six passes of bfloat16; when it is None, f32 is multiplied in six
    and f16 in one. result_dtype is bf16, f16, f32, int32, int8 or fp8; when it is None, that of the
    operands, of int8 int32 and of fp8 bf16.

    `terms["compute"]` is how long the MXUs are busy. `hbm_bytes` of operands and results cross HBM:
    all of them when it is None. A large product of ragged float16 has two times, for the compiler
    chooses between tiles: `other_s` is the one that is not expected, `terms["retiling"]` what small
    tiles add. clock is default, or pinned to its highest state. Raises ValueError for a name or a
    size that cannot be, and where no measurement at a pinned clock is public.
    """
    fitted, chip = part_of(generation, part)
    fitted = at_clock(generation, fitted, clock)
    work = gemm.MatmulWork(m, k, n, dtype, batch, hbm_bytes, result_dtype, precision)
    parts = gemm.terms(fitted, chip, work)
    value, (low, high) = gemm.total(parts), matmul_ends(fitted, work, parts)
    from_ = _gemm_sources(generation, chip, dtype, clock)
    estimate = _bounded(value, low, high, parts, from_)
    if not gemm.is_converted(fitted, dtype):
        return estimate
    both = 2 * gemm.fast_total(parts) + gemm.retiling_s(fitted, work)
    return replace(estimate, other_s=both - value)


def matmul_ends(
    fitted: Constants, work: gemm.MatmulWork, parts: Mapping[str, Figure]
) -> tuple[Figure, Figure]:
    """The least and the greatest seconds of products whose terms are `parts`."""
    value, fast, bounds = gemm.total(parts), gemm.fast_total(parts), _matmul_bounds(work)
    low = maximum(fast * bounds.low, gemm.peak_seconds(fitted, parts))
    return minimum(value, low), maximum(value, fast * bounds.high)


def _matmul_bounds(work: gemm.MatmulWork) -> Spread:
    """The ends of the interval over the time with large tiles, by the kind of shape."""
    kinds = ("gemm regular", "gemm irregular", "gemm irregular large")
    regular, irregular, large = map(spread, kinds)
    is_regular, is_long = gemm.is_regular(work), gemm.has_long_sides(work)
    return Spread(
        low=choose(is_regular, regular.low, choose(is_long, large.low, irregular.low)),
        high=choose(is_regular, regular.high, choose(is_long, large.high, irregular.high)),
    )


def elementwise(  # noqa: PLR0913 (bytes in and out, work, and of what and where)
    generation: str,
    read_bytes: ArrayLike,
    written_bytes: ArrayLike,
    operations: ArrayLike = 0,
    *,
    dtype: str = "bf16",
    part: str = "chip",
) -> Estimate:
    """Seconds of one pass of the vector unit over arrays in HBM.

    `operations` are those of the vector unit on all elements together. dtype is bf16, f16, f32,
    int8, int32 or fp8: f16 is converted where the generation takes time for that. part is chip,
    device or tensorcore. Raises ValueError.
    """
    fitted, chip = part_of(generation, part)
    work = memory.VectorPass(read_bytes, written_bytes, operations, dtype)
    parts = memory.elementwise_terms(fitted, chip, work)
    extra = ("conversion_bytes_per_s",) if dtype == "f16" else ()
    return _memory_estimate(generation, parts, "elementwise", ("launch_s", *extra))


def copy(generation: str, size_bytes: ArrayLike, *, part: str = "chip") -> Estimate:
    """Seconds to copy an array within the HBM of a chip, or by one device or tensorcore of it.

    Every byte is read and written.
    """
    fitted, chip = part_of(generation, part)
    parts = memory.copy_terms(fitted, chip, size_bytes)
    return _memory_estimate(generation, parts, "memory")


def dma(generation: str, size_bytes: ArrayLike, *, part: str = "chip") -> Estimate:
    """Seconds to move an array between HBM and VMEM, one way; part: chip, device or tensorcore."""
    fitted, chip = part_of(generation, part)
    parts = memory.dma_terms(fitted, chip, size_bytes)
    return _memory_estimate(generation, parts, "memory", ("dma_launch_s",))


def part_of(generation: str, part: str) -> tuple[Constants, catalog.Chip]:
    """The constants and the figures of a part of the chip: the vector units are shared out, too."""
    fitted, parts = constants(generation), part_count(generation, part)
    rate = fitted.conversion_bytes_per_s
    shared = fitted if parts == 1 else replace(fitted, conversion_bytes_per_s=rate and rate / parts)
    return shared, chip_share(catalog.generation(generation).chip, parts)


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
    low, high = collective_ends(fitted, parts, along_axes)
    from_ = sources(generation, collectives.CONSTANTS)
    return _bounded(collectives.total(parts), low, high, parts, from_)


def collective_ends(
    fitted: Constants, parts: Mapping[str, Figure], along_axes: Mapping[str, Figure]
) -> tuple[Figure, Figure]:
    """The least and the greatest seconds of a collective: its steps may follow the axes."""
    value, bounds = collectives.total(parts), spread("collective")
    low = minimum(value * bounds.low, collectives.total(along_axes))
    low = maximum(low, parts["ici"] * fitted.ici_efficiency)
    return minimum(value, low), maximum(value, value * bounds.high)


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
    generation: str,
    parts: Mapping[str, Figure],
    kind: str,
    names: tuple[str, ...] = ("launch_s",),
) -> Estimate:
    at_peak = parts["memory"] * constants(generation).memory_efficiency
    from_ = sources(generation, (*names, "memory_efficiency"))
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


def _gemm_sources(generation: str, chip: catalog.Chip, dtype: str, clock: str) -> tuple[str, ...]:
    efficiency = "pinned_compute_efficiency" if clock == "pinned" else "compute_efficiency"
    names = ("launch_s", efficiency, "memory_efficiency")
    if dtype == "f16":
        return sources(generation, (*names, "conversion_bytes_per_s", "reconverted_rows"))
    if dtype == "f32" or gemm.is_native(chip, dtype):
        return sources(generation, names)
    note = f"{dtype} on {generation}: no public rate, so that of bfloat16"
    return (*sources(generation, names), note)
