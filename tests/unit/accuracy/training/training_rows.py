"""Published training steps, as `training_rows.json` carries them: one row, one source.

A row is used in one way only. `fitted`: the constants are fitted to it. `development`: never
fitted; the formulas and intervals may be made with it. `held_out`: scored, nothing else.
"""

import json
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tpuctl.catalog.public_models import public_model
from tpuctl.perfmodel.workload.known_models import known_transformer, transformer_of
from tpuctl.perfmodel.workload.parallelism import Parallelism
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware, slice_hardware
from tpuctl.perfmodel.workload.train_run import TrainRun
from tpuctl.perfmodel.workload.training.step_work import StepWork, step_work
from tpuctl.perfmodel.workload.transformer import Transformer, count_parameters

ROWS = Path(__file__).with_name("training_rows.json")


@dataclass(frozen=True)
class TrainingRow:
    """One published training step; `measured_s` is of the whole step."""

    name: str
    publication: str
    framework: str
    model_name: str
    family: str
    use: str
    source: str
    notes: str
    hardware: SliceHardware
    model: Transformer
    run: TrainRun
    measured_s: float

    @property
    def generation(self) -> str:
        """The generation of the slices."""
        return self.hardware.generation

    @property
    def has_experts(self) -> bool:
        """Whether the model is a mixture of experts."""
        return self.model.experts is not None

    @property
    def chips(self) -> int:
        """Chips of all slices."""
        return self.hardware.chips * int(self.run.parallelism.slices)

    @property
    def ideal_s(self) -> float:
        """What the step takes at the peak: six operations a parameter, attention halved."""
        return _published_operations(self.model, self.run, is_halved=True) / self.peak_flops

    @property
    def peak_flops(self) -> float:
        """Operations a second in bfloat16 of all chips."""
        device = self.hardware.device
        return device.bf16_flops * self.hardware.devices_per_chip * self.chips


@cache
def training_rows() -> tuple[TrainingRow, ...]:
    """All rows, in the order of the file."""
    document = json.loads(ROWS.read_text(encoding="utf-8"))
    return tuple(_row(fields, document["models"]) for fields in document["rows"])


@cache
def works() -> tuple[StepWork, ...]:
    """The work of every row, in their order."""
    return tuple(step_work(row.hardware, row.model, row.run) for row in training_rows())


def stacked(chosen: np.ndarray) -> StepWork:
    """The work of the chosen rows, as arrays."""
    picked = [works()[number] for number in np.flatnonzero(chosen)]
    return StepWork(
        **{
            field.name: np.array([float(getattr(work, field.name)) for work in picked])
            for field in fields(StepWork)
        }
    )


def _row(row: dict[str, Any], models: dict[str, Any]) -> TrainingRow:
    own = models.get(row["model"])
    model = transformer_of(own["shape"]) if own else known_transformer(row["model"])
    family = own["family"] if own else public_model(row["model"]).family
    optional = ("accumulation_steps", "capacity_factor", "weight_bytes", "moment_bytes")
    run = TrainRun(
        sequences=row["sequences"],
        sequence_tokens=row["sequence_tokens"],
        parallelism=Parallelism(**row["parallelism"]),
        remat=row["remat"],
        precision=row["precision"],
        **{name: row[name] for name in optional if name in row},
    )
    hardware = slice_hardware(row["generation"], row["topology"])
    return TrainingRow(
        name=row["id"],
        publication=row["publication"],
        framework=row["framework"],
        model_name=row["model"],
        family=family,
        use=row["use"],
        source=row["source"],
        notes=row.get("notes", ""),
        hardware=hardware,
        model=model,
        run=run,
        measured_s=_measured_s(row, hardware, model, run),
    )


def _measured_s(
    row: dict[str, Any], hardware: SliceHardware, model: Transformer, run: TrainRun
) -> float:
    """The step's seconds, from tokens a second or from the utilisation where only that is told."""
    if "step_s" in row:
        return float(row["step_s"])
    chips = hardware.chips * row["slices"]
    if "tokens_per_s_per_chip" in row:
        return float(run.tokens / (row["tokens_per_s_per_chip"] * chips))
    peak = hardware.device.bf16_flops * hardware.devices_per_chip * chips
    operations = _published_operations(model, run, is_halved=False)
    return float(operations / (peak * row["mfu_percent"] / 100))


def _published_operations(model: Transformer, run: TrainRun, *, is_halved: bool) -> float:
    """Six operations a parameter that a token is multiplied with, and attention over all tokens.

    So PaLM counts (arXiv 2204.02311, appendix B), Levanter, and MaxText before its pull request
    1988. Later it halves attention.
    """
    count = count_parameters(model)
    looked_up = 0 if model.is_tied else model.vocab * model.hidden
    positions = model.position_tokens * model.hidden
    parameters = count.active - looked_up - positions
    attention = 12 * model.layers * model.heads * model.head_dim * run.sequence_tokens
    return float(run.tokens * (6 * parameters + attention * (0.5 if is_halved else 1)))
