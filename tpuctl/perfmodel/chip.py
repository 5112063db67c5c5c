"""How long one chip computes, moves memory, and how long a slice sums an array: closed forms.

    matmul      launch + max(compute, memory)
    copy        launch + memory
    all_reduce  launch + max(latency, ici)

Every figure is modelled. Its interval reaches from the chip's peak to nothing overlapping.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tpuctl import catalog
from tpuctl.perfmodel.calibration import (
    COLLECTIVE_HIGH_FACTOR,
    COLLECTIVE_LAUNCH_S,
    HIGH_FACTOR,
    IRREGULAR_FACTOR,
    LOW_LAUNCH_S,
    S_PER_HOP,
    Calibration,
    calibration,
)

ROWS_PER_TILE = 8
"""A matrix's rows are padded to whole tiles, its other two sides to the side of the MXU."""

_ELEMENT_BYTES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"bf16": (2, 2), "int8": (1, 4), "fp8": (1, 2)}
)
"""dtype of the operands -> bytes of an operand's and of a result's element."""

_FULL_AXIS: Mapping[str, int] = MappingProxyType({"v2": 16, "v3": 32, "v5e": 16, "v6e": 16})
"""Generations with a flat mesh -> the length at which an axis is closed to a ring."""

_CUBE_SIDE = 4


@dataclass(frozen=True, slots=True)
class Estimate:
    """A modelled time with its interval, and the terms it is made of, in seconds."""

    value_s: float
    low_s: float
    high_s: float
    terms: Mapping[str, float]
    source: str


def matmul(generation: str, m: int, k: int, n: int, *, dtype: str = "bf16") -> Estimate:
    """[m, k] x [k, n] on all TensorCores of one chip; `terms["compute"]` is the MXU-busy time."""
    if min(m, k, n) < 1:
        raise ValueError(f"a matrix side is below 1: {m}, {k}, {n}")
    chip = catalog.generation(generation).chip
    fitted = calibration(generation)
    padded = _padded(chip, m, k, n)
    ideal_compute_s = 2 * padded[0] * padded[1] * padded[2] / _peak(generation, chip, dtype)
    operand, result = _ELEMENT_BYTES[dtype]
    ideal_memory_s = (operand * (m * k + k * n) + result * m * n) / chip.hbm_bytes_per_s
    terms = {
        "launch": fitted.launch_s,
        "compute": ideal_compute_s / fitted.compute_efficiency,
        "memory": ideal_memory_s / fitted.memory_efficiency,
    }
    cliff = 1.0 if padded == (m, k, n) else IRREGULAR_FACTOR
    return Estimate(
        value_s=terms["launch"] + max(terms["compute"], terms["memory"]),
        low_s=LOW_LAUNCH_S + max(ideal_compute_s, ideal_memory_s),
        high_s=sum(terms.values()) * HIGH_FACTOR * cliff,
        terms=terms,
        source=fitted.source,
    )


def copy(generation: str, size_bytes: int) -> Estimate:
    """Copy an array within one chip's HBM: every byte is read and written."""
    _check_size(size_bytes)
    fitted = calibration(generation)
    ideal_s = 2 * size_bytes / catalog.generation(generation).chip.hbm_bytes_per_s
    terms = {"launch": fitted.launch_s, "memory": ideal_s / fitted.memory_efficiency}
    value_s = sum(terms.values())
    return Estimate(value_s, LOW_LAUNCH_S + ideal_s, value_s * HIGH_FACTOR, terms, fitted.source)


def all_reduce(accelerator_type: str, size_bytes: int) -> Estimate:
    """Sum an array of `size_bytes`, one copy on every chip, over all chips of a slice."""
    _check_size(size_bytes)
    kind = catalog.accelerator_type(accelerator_type)
    fitted = calibration(kind.generation)
    if kind.chips == 1:
        return _nothing_to_reduce(fitted)
    axes = _axes(kind)
    link = catalog.generation(kind.generation).chip.ici_bytes_per_s_per_link
    # A ring carries both ways; the end of an open line receives over one link only. The array is
    # split over the axes in proportion, so their rates add up; reduce-scatter, then all-gather.
    rate = link * sum(2 if is_ring else 1 for _, is_ring in axes)
    ideal_ici_s = 2 * size_bytes * (kind.chips - 1) / kind.chips / rate
    hops = 2 * sum(length // 2 if is_ring else length - 1 for length, is_ring in axes)
    terms = {
        "launch": sum(COLLECTIVE_LAUNCH_S) / 2,
        "latency": hops * S_PER_HOP,
        "ici": ideal_ici_s / fitted.ici_efficiency,
    }
    busy_s = max(terms["latency"], terms["ici"])
    return Estimate(
        value_s=terms["launch"] + busy_s,
        low_s=COLLECTIVE_LAUNCH_S[0] + ideal_ici_s,
        high_s=COLLECTIVE_LAUNCH_S[1] + busy_s * COLLECTIVE_HIGH_FACTOR,
        terms=terms,
        source=fitted.source,
    )


def _padded(chip: catalog.Chip, m: int, k: int, n: int) -> tuple[int, int, int]:
    side = chip.mxu_side
    return _rounded_up(m, ROWS_PER_TILE), _rounded_up(k, side), _rounded_up(n, side)


def _rounded_up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


def _peak(generation: str, chip: catalog.Chip, dtype: str) -> int:
    peaks = {"bf16": chip.bf16_flops, "int8": chip.int8_ops, "fp8": chip.fp8_flops}
    if dtype not in peaks:
        raise ValueError(f"unknown dtype {dtype!r}; one of: {', '.join(peaks)}")
    peak = peaks[dtype]
    if peak is None:
        raise ValueError(f"no public {dtype} figure for {generation}")
    return peak


def _check_size(size_bytes: int) -> None:
    if size_bytes < 0:
        raise ValueError(f"a size is below 0: {size_bytes}")


def _axes(kind: catalog.AcceleratorType) -> list[tuple[int, bool]]:
    """The torus axes a slice has: length, and whether it is closed to a ring."""
    lengths = [int(length) for length in kind.topology.split("x")]
    full = _FULL_AXIS.get(kind.generation)
    is_cubes = full is None and all(length % _CUBE_SIDE == 0 for length in lengths)
    return [(length, is_cubes or length == full) for length in lengths if length > 1]


def _nothing_to_reduce(fitted: Calibration) -> Estimate:
    terms = {"launch": 0.0, "latency": 0.0, "ici": 0.0}
    return Estimate(0.0, 0.0, 0.0, terms, fitted.source)
