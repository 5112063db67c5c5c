"""How long memory moves, and the vector unit works on what moves.

copy         launch + read and written bytes at what HBM reaches of its peak
dma          the same, one way: HBM to VMEM or back; issuing it is shorter than a launch
elementwise  launch + max(memory, vector operations) + conversion of float16
"""

from collections.abc import Mapping
from dataclasses import dataclass

from numpy.typing import ArrayLike

from tpuctl import catalog
from tpuctl.perfmodel.chip.calibration import Constants
from tpuctl.perfmodel.chip.numeric import Figure, maximum, size

ELEMENT_DTYPES = ("bf16", "f16", "f32", "int8", "int32", "fp8")
"""What an elementwise pass works on; float16 alone is converted first."""

_LANES_PER_CORE = 8 * 128
_ALUS_PER_LANE = 2
"""On v4. v5e has four (jax-ml/scaling-book), but what vectors wait for is nearly always memory."""


@dataclass(frozen=True, slots=True)
class VectorPass:
    """One pass of the vector unit over arrays in HBM; the fields broadcast."""

    read_bytes: ArrayLike
    written_bytes: ArrayLike
    operations: ArrayLike = 0
    dtype: str = "bf16"


def copy_terms(
    constants: Constants, chip: catalog.Chip, size_bytes: ArrayLike
) -> dict[str, Figure]:
    """Seconds of launch and memory of a copy of `size_bytes` within HBM; raises ValueError."""
    return _kernel_terms(constants, chip, 2 * size(size_bytes))


def dma_terms(constants: Constants, chip: catalog.Chip, size_bytes: ArrayLike) -> dict[str, Figure]:
    """Seconds of launch and memory of `size_bytes` between HBM and VMEM; raises ValueError."""
    return {
        **_kernel_terms(constants, chip, size(size_bytes)),
        "launch": constants.dma_launch_s,
    }


def elementwise_terms(
    constants: Constants, chip: catalog.Chip, work: VectorPass
) -> dict[str, Figure]:
    """Seconds of launch, memory, vector and conversion of one pass; raises ValueError."""
    if work.dtype not in ELEMENT_DTYPES:
        raise ValueError(f"unknown dtype {work.dtype!r}; one of: {', '.join(ELEMENT_DTYPES)}")
    size_bytes = size(work.read_bytes) + size(work.written_bytes)
    return {
        **_kernel_terms(constants, chip, size_bytes),
        "vector": size(work.operations, "number of operations") / vector_operations_per_s(chip),
        "conversion": conversion_s(constants, work.dtype, size_bytes),
    }


def _kernel_terms(
    constants: Constants, chip: catalog.Chip, size_bytes: Figure
) -> dict[str, Figure]:
    hbm_bytes_per_s = chip.hbm_bytes_per_s * constants.memory_efficiency
    return {"launch": constants.launch_s, "memory": size_bytes / hbm_bytes_per_s}


def conversion_s(constants: Constants, dtype: str, size_bytes: Figure) -> Figure:
    """Seconds to convert `size_bytes` of float16 to a format of the chip, or back; else 0."""
    if dtype != "f16" or constants.conversion_bytes_per_s is None:
        return 0.0
    return size_bytes / constants.conversion_bytes_per_s


def total(parts: Mapping[str, Figure]) -> Figure:
    """The seconds of the terms together: launch + max(memory, vector) + conversion."""
    busy = maximum(parts["memory"], parts.get("vector", 0.0))
    return parts["launch"] + busy + parts.get("conversion", 0.0)


def vector_operations_per_s(chip: catalog.Chip) -> float:
    """Operations a second of all lanes of the chip's vector units."""
    clock_hz = chip.clock_hz or _clock_of_peak(chip)
    return float(chip.tensorcores * _LANES_PER_CORE * _ALUS_PER_LANE * clock_hz)


def _clock_of_peak(chip: catalog.Chip) -> float:
    """The clock where it is not told: of a peak of two operations a multiplier and cycle."""
    multipliers = chip.tensorcores * chip.mxus_per_tensorcore * chip.mxu_side**2
    return chip.bf16_flops / (2 * multipliers)
