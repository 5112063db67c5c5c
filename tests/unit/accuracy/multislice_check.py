"""What published training steps lose by running on several slices, beside what the network takes.

Each chip sums its part of the gradients with the other slices. What of that is hidden behind the
backward pass is not told, and a step of many slices also waits for the slowest: so a loss is
neither a measurement of the network nor a bound of it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tpuctl import catalog
from tpuctl.perfmodel.chip import collectives
from tpuctl.perfmodel.chip.calibration import Constants

FILE = Path(__file__).with_name("multislice_steps.json")


@dataclass(frozen=True, slots=True)
class SlicesLoss:
    """Seconds of a step on one slice, what it loses on several, and what the network takes."""

    label: str
    step_s: float
    lost_s: float
    network_s: float


def losses(constants: Constants) -> Iterator[SlicesLoss]:
    """Every published pair: 6 operations for each parameter and token are a step's work."""
    document = _document()
    chip = catalog.generation(document["generation"]).chip
    for model, parameters, tokens, slices, alone, together in document["rows"]:
        step_s = 6 * parameters * tokens / (alone / 100 * chip.bf16_flops)
        part_bytes = parameters * document["gradient_bytes"] / document["chips_per_slice"]
        yield SlicesLoss(
            label=f"{model} on {slices} x {document['chips_per_slice']}",
            step_s=step_s,
            lost_s=step_s * (alone / together - 1),
            network_s=collectives.dcn_terms(constants, chip, slices, part_bytes)["dcn"],
        )


def generation() -> str:
    """Whose slices they are."""
    return str(_document()["generation"])


def source() -> str:
    """Who published the steps."""
    return str(_document()["source"])


@cache
def _document() -> dict[str, object]:
    return json.loads(FILE.read_text(encoding="utf-8"))
