"""Published peaks of memory, and runs that fit or did not, as `peak_rows.json` carries them.

A row has `peak_gib`, what one device held at the peak of a step that ran, or says whether the run
fits, or both. `demand_gib` is what the compiler wanted of a run that it refused. All are XLA's GiB,
which most publications print as GB. A row is used in one way only. `fitted`: the constants are
fitted to it; `development`: the formulas and intervals are made with it; `held_out`: scored only.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tpuctl.catalog.public_models import public_model
from tpuctl.perfmodel.workload.known_models import transformer_of
from tpuctl.perfmodel.workload.parallelism import Parallelism
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware, slice_hardware
from tpuctl.perfmodel.workload.train_run import TrainRun
from tpuctl.perfmodel.workload.transformer import Transformer

ROWS = Path(__file__).with_name("peak_rows.json")
GIB = 2**30
_RUN = (
    "sequences",
    "sequence_tokens",
    "remat",
    "precision",
    "weight_bytes",
    "gradient_bytes",
    "moment_bytes",
    "logit_chunks",
)


@dataclass(frozen=True)
class PeakRow:
    """One published run; `peak_bytes` is None where only its fit is known."""

    name: str
    use: str
    hardware: SliceHardware
    model_name: str
    model: Transformer
    run: TrainRun
    peak_bytes: float | None
    demand_bytes: float | None
    fits: bool
    source: str
    notes: str


@cache
def peak_rows() -> tuple[PeakRow, ...]:
    """All rows, in the order of the file."""
    return tuple(map(_row, json.loads(ROWS.read_text("utf-8"))["rows"]))


def peaks(*uses: str) -> list[PeakRow]:
    """The rows of these uses that have a peak."""
    return [row for row in peak_rows() if row.use in uses and row.peak_bytes is not None]


def _row(row: dict[str, Any]) -> PeakRow:
    return PeakRow(
        name=row["id"],
        use=row["use"],
        hardware=slice_hardware(row["generation"], row["topology"]),
        model_name=row["model"],
        model=_changed(row["model"], row.get("shape", {})),
        run=TrainRun(
            parallelism=Parallelism(**row["parallelism"]),
            **{name: row[name] for name in _RUN if name in row},
        ),
        peak_bytes=_bytes(row.get("peak_gib")),
        demand_bytes=_bytes(row.get("demand_gib")),
        fits=row.get("fits", True),
        source=row["source"],
        notes=row.get("notes", ""),
    )


def _bytes(gib: float | None) -> float | None:
    return None if gib is None else gib * GIB


def _changed(name: str, changes: dict[str, int]) -> Transformer:
    """A public model with fewer layers, or with another number of experts."""
    shape = dict(public_model(name).shape)
    changes = dict(changes)
    if "experts" in changes:
        shape["experts"] = {**shape["experts"], "count": changes.pop("experts")}
    return transformer_of({**shape, **changes})
