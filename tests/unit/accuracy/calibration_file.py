"""The package's calibration.json, from the fit."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tpuctl import catalog
from tpuctl.perfmodel.chip import calibration
from unit.accuracy import accuracy_scores, constant_fit

FILE = Path(calibration.__file__).with_name("calibration.json")

MEANING: Mapping[str, str] = MappingProxyType(
    {
        "launch_s": "starting a kernel and ending it",
        "dma_launch_s": "issuing a DMA and hearing that it ended",
        "compute_efficiency": "share of the MXUs' peak that a product of whole tiles reaches",
        "memory_efficiency": "share of HBM's bandwidth that a transfer reaches",
        "conversion_bytes_per_s": "float16 made into what the MXU multiplies, and back; "
        "null: in no time of its own",
        "collective_launch_s": "starting a collective on all its chips and ending it",
        "ici_efficiency": "share of the links' rate that a collective reaches",
    }
)


def text() -> str:
    """The content of the file."""
    generations = {one.name: _constants(one.name) for one in catalog.generations()}
    content = {"generations": generations, "spread": accuracy_scores.spreads()}
    return json.dumps(content, indent=1) + "\n"


def rows_that_tell(generation: str, name: str) -> int:
    """How many rows a constant of a generation was fitted to; 0 where it is the others'."""
    kinds = [
        kinds for kinds, names in constant_fit.TOLD.get(generation, {}).items() if name in names
    ]
    return sum(
        table.uses.size
        for table in constant_fit.fitted_rows()
        if table.generation == generation and any(table.kind in each for each in kinds)
    )


def _constants(generation: str) -> dict[str, dict[str, str | float | int | None]]:
    own = constant_fit.constants(generation, accuracy_scores.all_constants())
    other = accuracy_scores.without_generation(generation)
    return {
        name: {
            "value": getattr(own, name),
            "meaning": meaning,
            "without_this_generation": getattr(other, name),
            "rows": rows_that_tell(generation, name),
        }
        for name, meaning in MEANING.items()
    }
