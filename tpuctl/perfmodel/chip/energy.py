"""How much energy a chip takes: what it draws at rest, and what every operation adds.

    static x seconds + multiply-adds + bytes of HBM + bytes of ICI

Energies of operations: Jouppi et al., ISCA 2021, table 2, at 7 nm. HBM: the device alone, 3.97
pJ/bit (O'Connor et al., MICRO 2017). Links: a usual figure of electrical serial links; no TPU's
is public.
"""

from collections.abc import Mapping
from types import MappingProxyType

from numpy.typing import ArrayLike

from tpuctl import catalog
from tpuctl.perfmodel.chip import gemm
from tpuctl.perfmodel.chip.estimate import EnergyEstimate
from tpuctl.perfmodel.chip.numeric import broadcast_terms, size

J_PER_MAC: Mapping[str, float] = MappingProxyType(
    {
        "bf16": 0.21e-12 + 0.38e-12,
        "f16": 0.34e-12 + 0.38e-12,
        "f32": gemm.F32_PASSES * (0.21e-12 + 0.38e-12),
        "int8": 0.07e-12 + 0.03e-12,
        "fp8": 0.21e-12 + 0.38e-12,
    }
)
"""A multiplication and an addition to the sum: float32, int32 for int8. fp8: as bfloat16."""

J_PER_HBM_BYTE = 8 * 3.97e-12
J_PER_ICI_BYTE = 8 * 5e-12

STATIC_OF_DYNAMIC = 0.76
"""v4: 90 W at rest over 119 W of multiply-adds and HBM at their peaks."""

STATIC_SHARES = (0.30, 0.72)
"""The static parts of a chip's energy, v2 to v5p: ReGate (MICRO 2025, arXiv 2508.02536)."""

LOW_DYNAMIC = 0.5
HIGH_DYNAMIC = 13 / 3.97
"""HBM with its controller, measured on a GPU, over the device alone."""

HIGH_OF_MEASURED = 1.25
"""Where the most that a chip drew is public, both peaks at once may draw so much more."""

_SOURCES = (
    "multiply-adds: Jouppi et al., ISCA 2021, table 2, 7 nm",
    "HBM: 3.97 pJ/bit, O'Connor et al., MICRO 2017",
    "links: 5 pJ/bit, a usual figure; none of a TPU is public",
)


def energy(
    generation: str,
    *,
    macs: ArrayLike,
    hbm_bytes: ArrayLike,
    ici_bytes: ArrayLike,
    seconds: ArrayLike,
    dtype: str = "bf16",
) -> EnergyEstimate:
    """Joules of one chip that does so many multiply-adds and moves so many bytes in `seconds`.

    The arguments broadcast. Raises catalog.UnknownError, ValueError for a dtype or a size that
    cannot be.
    """
    if dtype not in J_PER_MAC:
        raise ValueError(f"unknown dtype {dtype!r}; one of: {', '.join(J_PER_MAC)}")
    chip = catalog.generation(generation).chip
    low_w, static_w, high_w = static_power_w(chip)
    duration_s = size(seconds)
    terms = {
        "static": static_w * duration_s,
        "compute": J_PER_MAC[dtype] * size(macs),
        "hbm": J_PER_HBM_BYTE * size(hbm_bytes),
        "ici": J_PER_ICI_BYTE * size(ici_bytes),
    }
    dynamic = terms["compute"] + terms["hbm"] + terms["ici"]
    value_j = terms["static"] + dynamic
    return EnergyEstimate(
        value_j=value_j,
        low_j=low_w * duration_s + LOW_DYNAMIC * dynamic,
        high_j=high_w * duration_s + _high_dynamic(chip) * dynamic,
        terms=broadcast_terms(terms, value_j),
        sources=(_static_source(generation, chip), *_SOURCES),
        is_estimate=chip.power_w is None,
    )


def static_power_w(chip: catalog.Chip) -> tuple[float, float, float]:
    """Watts at rest: the least, the value, the most; measured ones where they are public."""
    if chip.power_w is not None:
        idle_w = chip.power_w[0]
        return idle_w, idle_w, idle_w
    dynamic_w = peak_dynamic_w(chip)
    low, high = (dynamic_w * share / (1 - share) for share in STATIC_SHARES)
    return low, STATIC_OF_DYNAMIC * dynamic_w, high


def peak_dynamic_w(chip: catalog.Chip) -> float:
    """Watts of multiply-adds and HBM at their peaks."""
    compute_w = J_PER_MAC["bf16"] * chip.bf16_flops / 2
    return compute_w + J_PER_HBM_BYTE * chip.hbm_bytes_per_s


def _high_dynamic(chip: catalog.Chip) -> float:
    if chip.power_w is None:
        return HIGH_DYNAMIC
    idle_w, _, most_w = chip.power_w
    return HIGH_OF_MEASURED * max(1.0, (most_w - idle_w) / peak_dynamic_w(chip))


def _static_source(generation: str, chip: catalog.Chip) -> str:
    if chip.power_w is None:
        return f"static: no public power of {generation}; v4's share of it, 30 to 72 % (ReGate)"
    return f"static: the least power measured of {generation}, {chip.power_w[0]:g} W"
