"""What serving engines log: weights of all devices, and the cache of a token on all devices.

No row is fitted: weights follow from the shape, and the cache from the layout. The engines allocate
all tokens of layers with a window.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tpuctl.perfmodel.workload.known_models import known_transformer
from tpuctl.perfmodel.workload.memory.device_memory import serving_memory
from tpuctl.perfmodel.workload.parallelism import Parallelism
from tpuctl.perfmodel.workload.serving_run import ServingRun
from tpuctl.perfmodel.workload.slice_hardware import slice_hardware

ROWS = Path(__file__).with_name("serving_rows.json")
TOKENS = 4096


@dataclass(frozen=True)
class EngineFigure:
    """One figure that an engine logged, and what is modelled."""

    name: str
    what: str
    unit: str
    logged: float
    modelled: float

    @property
    def error_percent(self) -> float:
        """Modelled over logged, less one."""
        return 100 * (self.modelled / self.logged - 1)


def engine_figures() -> Iterator[EngineFigure]:
    """All figures, in the order of the file."""
    for row in json.loads(ROWS.read_text("utf-8"))["rows"]:
        hardware = slice_hardware(row["generation"], row["topology"])
        model = known_transformer(row["model"])
        whole = replace(model, attention=replace(model.attention, window_tokens=TOKENS))
        run = ServingRun(1, TOKENS, 0, Parallelism(tensor=row["tensor"]), row["weight_bytes"])
        kinds = serving_memory(hardware, whole, run).kinds
        weights, cache = (kinds[name] * row["tensor"] for name in ("weights", "kv_cache"))
        yield EngineFigure(row["id"], "weights", "GiB", row["weights_gib"], weights / 2**30)
        if "cache_kib_per_token" in row:
            token_kib = cache / TOKENS / 2**10
            logged = row["cache_kib_per_token"]
            yield EngineFigure(row["id"], "cache of a token", "KiB", logged, token_kib)
