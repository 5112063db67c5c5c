"""The constants of the memory model: `PYTHONPATH=tests python -m unit.accuracy.memory.peak_fit`.

Four are fitted to the rows of use `fitted`, by the least squares of the logarithms of the peaks.
The interval is of what is not exact (parameters follow from the sharding): measured over modelled,
over fitted and development rows, the ends among them; a row whose notes say that the model does not
know what it does makes no interval.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest.mock import patch

import numpy as np

from tpuctl.perfmodel.workload import device_memory
from unit.accuracy.memory.peak_rows import PeakRow, peaks
from unit.accuracy.simplex import smallest

CONSTANTS = Path(device_memory.__file__).with_name("memory_constants.json")
FITTED = ("working_sets", "dispatch_copies", "logit_bytes", "gathered_layers")
START = (1.5, 6.0, 3.0, 2.0)
RESERVE_BYTES = 285_212_672
"""268 to 272 MiB: what XLA's messages name as reserved on v6e, v5p and tpu7x."""
LEAST = 0.7
"""The low end is no higher: DeepSeek-V3 ran on v5p where the model has 40 % more than there is."""


def fitted_constants() -> dict[str, float]:
    """What the fitted rows tell, and the interval."""
    rows = peaks("fitted")
    found = np.exp(smallest(_squares(rows), np.log(START)))
    constants = dict(zip(FITTED, map(float, found), strict=True))
    constants |= {"reserve_bytes": RESERVE_BYTES, "low": LEAST, "high": 1.0}
    ratios = [_passing(row, constants) for row in peaks("fitted", "development") if not row.notes]
    return constants | {"low": min(LEAST, *ratios), "high": max(ratios)}


def text() -> str:
    """The file of the constants."""
    rounded = {name: float(f"{value:.4g}") for name, value in fitted_constants().items()}
    return json.dumps(rounded, indent=1) + "\n"


def modelled_bytes(row: PeakRow, constants: Mapping[str, float]) -> float:
    """The peak that these constants give."""
    with patch.object(device_memory, "memory_constants", lambda: constants):
        return float(device_memory.train_memory(row.hardware, row.model, row.run).value_bytes)


def _squares(rows: list[PeakRow]) -> Callable[[np.ndarray], float]:
    def squares(logarithms: np.ndarray) -> float:
        constants = dict(zip(FITTED, map(float, np.exp(logarithms)), strict=True))
        constants |= {"reserve_bytes": RESERVE_BYTES, "low": 1.0, "high": 1.0}
        off = [np.log(modelled_bytes(row, constants) / row.peak_bytes) for row in rows]
        return float(np.sum(np.square(off)))

    return squares


def _passing(row: PeakRow, constants: Mapping[str, float]) -> float:
    """Measured over modelled of what is not exact: all but weights and moments."""
    with patch.object(device_memory, "memory_constants", lambda: constants):
        estimate = device_memory.train_memory(row.hardware, row.model, row.run)
    exact = estimate.kinds["weights"] + estimate.kinds["optimizer"]
    return float((row.peak_bytes - exact) / (estimate.value_bytes - exact))


if __name__ == "__main__":
    CONSTANTS.write_text(text(), encoding="utf-8")
