"""The constants of the memory model: `PYTHONPATH=tests python -m unit.accuracy.memory.peak_fit`.

Four are fitted to the rows of use `fitted`, by the least squares of the logarithms of the peaks.
The interval is of what is not exact (parameters follow from the sharding): measured over modelled,
over fitted and development rows. The high end is the greatest ratio to the value; a row whose notes
say that the model does not know what it does is left out. The low end is the smallest ratio to what
a step holds at least, with the weights of one layer.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np

from tpuctl.perfmodel.workload.memory import device_memory
from unit.accuracy.constant_fit import rounded
from unit.accuracy.memory.peak_rows import PeakRow, peaks
from unit.accuracy.simplex import smallest

CONSTANTS = Path(device_memory.__file__).with_name("memory_constants.json")
FITTED = ("working_sets", "dispatch_copies", "logit_bytes", "gathered_layers")
START = (1.5, 6.0, 3.0, 2.0)
RESERVE_BYTES = 285_212_672
"""268 to 272 MiB: what XLA's messages name as reserved on v6e, v5p and tpu7x."""


def fitted_constants() -> dict[str, float]:
    """What the fitted rows tell, and the interval."""
    rows = peaks("fitted")
    found = np.exp(smallest(_squares(rows), np.log(START)))
    constants = dict(zip(FITTED, map(float, found), strict=True))
    constants |= {"reserve_bytes": RESERVE_BYTES, "low": 0.5, "high": 1.0}
    rows = peaks("fitted", "development")
    low = min(_passing(row, constants).over_least for row in rows)
    high = max(_passing(row, constants).over_value for row in rows if not row.notes)
    return constants | {"low": low, "high": high}


def text() -> str:
    """The file of the constants."""
    constants = {name: rounded(value) for name, value in fitted_constants().items()}
    return json.dumps(constants, indent=1) + "\n"


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


@dataclass(frozen=True)
class _Ratios:
    """Measured over modelled of what is not exact: all but weights and moments."""

    over_value: float
    over_least: float


def _passing(row: PeakRow, constants: Mapping[str, float]) -> _Ratios:
    with patch.object(device_memory, "memory_constants", lambda: constants):
        estimate = device_memory.train_memory(row.hardware, row.model, row.run)
    exact = float(estimate.kinds["weights"] + estimate.kinds["optimizer"])
    measured = (row.peak_bytes or 0) - exact
    least = (float(estimate.low_bytes) - exact) / constants["low"]
    return _Ratios(measured / (float(estimate.value_bytes) - exact), measured / least)


if __name__ == "__main__":
    CONSTANTS.write_text(text(), encoding="utf-8")
