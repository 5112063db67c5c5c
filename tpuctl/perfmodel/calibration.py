"""Measured shares of peak, each with its source; the published rows are few, and say so."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a generation reaches of its peaks, and what starting a kernel costs."""

    launch_s: float
    compute_efficiency: float
    memory_efficiency: float
    ici_efficiency: float
    source: str


LOW_LAUNCH_S = 0.9e-6
"""The fastest kernel in public TPU v4 traces took 0.9 to 1.0 us."""

HIGH_FACTOR = 1.15
"""The slowest published bf16 row (tpu7x, 512x512x512) took 1.12 x the un-overlapped sum."""

IRREGULAR_FACTOR = 2.5
"""One in five large irregular shapes on v4 ran 2 to 2.5 x slower: a cliff of compiler tiling."""

COLLECTIVE_LAUNCH_S = (8e-6, 13e-6)
"""Smallest collectives: 8 us on v5e (jax-ml/scaling-book), 13 us on tpu7x (tpu-recipes)."""

COLLECTIVE_HIGH_FACTOR = 1.7
"""The worst published row (tpu7x, all-gather on 2x2x1) reached 0.44 of both links' rate."""

S_PER_HOP = 1e-6
"""About 1 us a hop: jax-ml/scaling-book, also ASTRA-sim's figure for v3."""

# Midpoint of the launches of v4 and tpu7x; means of the measured shares of other generations.
_UNMEASURED = Calibration(
    launch_s=1.3e-6,
    compute_efficiency=0.865,
    memory_efficiency=0.84,
    ici_efficiency=0.74,
    source="no public measurement of this generation: means over v4, v5e, v6e and tpu7x",
)

_CALIBRATIONS: Mapping[str, Calibration] = MappingProxyType(
    {
        "v4": Calibration(
            launch_s=1.0e-6,
            compute_efficiency=0.865,
            memory_efficiency=0.81,
            ici_efficiency=0.74,
            source="launch and HBM: SCALE-Sim TPU's public v4 traces (arXiv 2603.22535), "
            "997 of 1,228 GB/s; compute and ICI: means over other generations",
        ),
        "v5e": Calibration(
            launch_s=1.3e-6,
            compute_efficiency=0.865,
            memory_efficiency=0.84,
            ici_efficiency=0.82,
            source="ICI: jax-ml/scaling-book, all-gather of 33.5 MB on 8x4, 560 of 680 us; "
            "the rest: means over other generations",
        ),
        "v6e": Calibration(
            launch_s=1.3e-6,
            compute_efficiency=0.90,
            memory_efficiency=0.83,
            ici_efficiency=0.66,
            source="AI-Hypercomputer/tpu-recipes: 827 of 918 TFLOP/s, 1,360 of 1,638 GB/s, "
            "all-reduce of 606 MB on 16x16 in 5.12 ms; launch: mean of v4 and tpu7x",
        ),
        "tpu7x": Calibration(
            launch_s=1.6e-6,
            compute_efficiency=0.83,
            memory_efficiency=0.87,
            ici_efficiency=0.74,
            source="AI-Hypercomputer/accelerator-microbenchmarks: 950 of 1,153 TFLOP/s and "
            "3,208 of 3,690 GB/s a core; ICI: mean over other generations",
        ),
    }
)


def calibration(generation: str) -> Calibration:
    """The calibration of a generation of the catalog."""
    return _CALIBRATIONS.get(generation, _UNMEASURED)
