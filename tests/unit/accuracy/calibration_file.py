"""What the fit writes: pooled constants, and the key `calibration` of each generation's file."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tpuctl import catalog
from tpuctl.perfmodel.chip import calibration
from unit.accuracy import accuracy_scores, constant_fit

POOLED = Path(calibration.__file__).with_name("pooled.json")
GENERATIONS = Path(catalog.__file__).with_name("data") / "generations"
KEY = '  "calibration": '

MEANING: Mapping[str, str] = MappingProxyType(
    {
        "launch_s": "starting a kernel and ending it",
        "dma_launch_s": "issuing a DMA and hearing that it ended",
        "compute_efficiency": "share of the MXUs' peak that a product of whole tiles reaches",
        "memory_efficiency": "share of HBM's bandwidth that a transfer reaches",
        "conversion_bytes_per_s": "float16 made into what the MXU multiplies, and back; "
        "null: in no time of its own",
        "reconverted_rows": "rows of a result for which float16 is converted once where the "
        "compiler chooses small tiles; of the fitted rows one has such tiles",
        "pinned_compute_efficiency": "compute_efficiency with the clock pinned to its highest "
        "state; null: no such state is public",
        "collective_step_s": "one message from a chip to the next, of all steps of a collective; "
        "pooled as that of one device of JAX, and a chip's devices take turns",
        "ici_efficiency": "share of the links' rate that a collective reaches",
        "dcn_efficiency": "share of a host's network that an exchange between slices reaches",
    }
)


def texts() -> dict[Path, str]:
    """The content of every file."""
    content = {"constants": pooled_constants(), "spread": accuracy_scores.spreads()}
    files = {POOLED: json.dumps(content, indent=1) + "\n"}
    for generation in catalog.generations():
        path = GENERATIONS / f"{generation.name}.json"
        facts = path.read_text(encoding="utf-8").partition(KEY)[0]
        rows = [
            f'    "{name}": {json.dumps(row)}'
            for name, row in own_constants(generation.name).items()
        ]
        section = "{\n" + ",\n".join(rows) + "\n  }" if rows else "{}"
        files[path] = f"{facts}{KEY}{section}\n}}\n"
    return files


def pooled_constants() -> dict[str, float | None]:
    """Name -> value for a generation that no row tells of."""
    told = constant_fit.pooled(accuracy_scores.all_constants())
    return {name: constant_fit.rounded(told[name]) if name in told else None for name in MEANING}


def rows_that_tell(generation: str, name: str) -> int:
    """How many rows a constant of a generation was fitted to; 0 where it is the others'."""
    kinds = [
        kinds for kinds, names in constant_fit.TOLD.get(generation, {}).items() if name in names
    ]
    return sum(
        table.uses.size
        for table in constant_fit.fitted_rows()
        if table.generation == generation and any(table.tells in each for each in kinds)
    )


def own_constants(generation: str) -> dict[str, dict[str, float | int | None]]:
    """Name -> what differs from the pooled value, or was fitted to the generation's own rows."""
    own = constant_fit.constants(generation, accuracy_scores.all_constants())
    other = accuracy_scores.without_generation(generation)
    devices = catalog.generation(generation).devices_per_chip
    pooled = calibration.for_devices(pooled_constants(), devices)
    return {
        name: {
            "value": getattr(own, name),
            "without_this_generation": getattr(other, name),
            "rows": rows_that_tell(generation, name),
        }
        for name in MEANING
        if rows_that_tell(generation, name) or getattr(own, name) != pooled[name]
    }
