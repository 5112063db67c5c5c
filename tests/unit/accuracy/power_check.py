"""Published watts of chips beside the watts that the energy model has at rest and at work."""

import json
from dataclasses import dataclass
from pathlib import Path

from tpuctl import catalog
from tpuctl.perfmodel import chip

FILE = Path(__file__).with_name("published_power.json")


@dataclass(frozen=True, slots=True)
class Watts:
    """What a chip draws at a share of both peaks, of multiplying and of HBM."""

    value: float
    low: float
    high: float


def drawn(generation: str, share: float) -> Watts:
    """The model's watts; no links are busy."""
    figures = catalog.generation(generation).chip
    one_second = chip.energy(
        generation,
        macs=share * figures.bf16_flops / 2,
        hbm_bytes=share * figures.hbm_bytes_per_s,
        ici_bytes=0,
        seconds=1.0,
    )
    return Watts(*map(float, (one_second.value_j, one_second.low_j, one_second.high_j)))


def share_of_peaks(generation: str, watts: float) -> float:
    """At which share of both peaks the model draws so much."""
    at_rest, at_peaks = drawn(generation, 0).value, drawn(generation, 1).value
    return (watts - at_rest) / (at_peaks - at_rest)


def rows() -> list[dict[str, str | float]]:
    """The published figures."""
    return json.loads(FILE.read_text(encoding="utf-8"))
