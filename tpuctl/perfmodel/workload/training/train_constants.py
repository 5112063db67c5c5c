"""Constants of the training model, fitted to public training steps (docs/accuracy.md).

`train_constants.json` is written by the fit. `constants` are of all generations; `slowness` is by
how much a generation's steps are slower than these say, and 1 for one without public steps.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tpuctl.perfmodel.chip.calibration import Spread
from tpuctl.perfmodel.workload.transformer import Transformer

_FITTED = Path(__file__).with_name("train_constants.json")


@dataclass(frozen=True, slots=True)
class TrainConstants:
    """What the formulas of `train_step` are multiplied with.

    An efficiency is a share of a peak. `exposed_` is the share of a collective's time in which
    nothing is computed, however much there is to compute beside it, or of reading operands again,
    block by block. `_traffic` is the bytes that move in HBM over those of the formula. `narrow_` is
    by how much matrices 512 wide take longer than wide ones, `recomputed_share` what is really
    computed again of what could be, `masked_share` the part of the mask of tokens and places that
    is multiplied, `attention_padding` the power of what heads that do not fill the MXU are padded
    by, `attention_start` how many tokens to attend to take as long as a row of blocks to start and
    to end, whatever its length, and `slice_wait` what waiting for the slowest slice adds with every
    doubling of the slices.
    """

    matmul_efficiency: Any
    expert_efficiency: Any
    attention_efficiency: Any
    attention_start: Any
    attention_padding: Any
    recomputed_share: Any
    masked_share: Any
    narrow_matmul: Any
    narrow_experts: Any
    memory_efficiency: Any
    matmul_traffic: Any
    exposed_reread: Any
    elementwise_traffic: Any
    dispatch_traffic: Any
    quantize_traffic: Any
    ici_efficiency: Any
    dcn_efficiency: Any
    exposed_fsdp: Any
    exposed_tensor: Any
    exposed_expert: Any
    exposed_dcn: Any
    slice_wait: Any
    layer_launch_s: Any
    step_launch_s: Any
    slowness: Any = 1.0


@cache
def train_constants(generation: str) -> TrainConstants:
    """The constants of a generation."""
    fitted = _fitted()
    slowness = fitted["slowness"].get(generation, 1.0)
    return TrainConstants(**fitted["constants"], slowness=slowness)


@cache
def train_spread(generation: str, model: Transformer) -> Spread:
    """The interval of measured over predicted; wider for a mixture of experts.

    It depends on what is known: steps of that model and generation, of the generation, those of
    other frameworks only, or nothing.
    """
    fitted = _fitted()
    known = "generation" if generation in fitted["slowness"] else "nothing"
    if shape_key(model) in fitted["models"].get(generation, ()):
        known = "model"
    if has_foreign_steps_only(generation):
        known = "nothing" if model.experts else "software"
    low, high = fitted["spread"]["experts" if model.experts else "dense"][known]
    return Spread(low=low, high=high)


def has_foreign_steps_only(generation: str) -> bool:
    """Whether the public steps of a generation are all of other frameworks than MaxText, of which
    the model says how long a step takes."""
    return generation in _fitted()["foreign"]


def shape_key(model: Transformer) -> str:
    """What tells one fitted model from another."""
    key = f"{model.layers}x{model.hidden}x{model.heads}x{model.mlp_hidden}"
    return f"{key}x{model.experts.count}" if model.experts else key


@cache
def train_sources(generation: str) -> tuple[str, ...]:
    """A sentence on what the constants were fitted to."""
    rows: Mapping[str, int] = _fitted()["rows"]
    own = rows.get(generation, 0)
    of = (
        f"{own} public training steps on {generation} among them{_foreign_text(generation)}"
        if own
        else f"none on {generation}, so the mean of the other generations"
    )
    return (
        f"training constants: fitted to {sum(rows.values())} public training steps, {of}"
        " (docs/accuracy.md)",
    )


def _foreign_text(generation: str) -> str:
    return ", none of MaxText" if has_foreign_steps_only(generation) else ""


@cache
def _fitted() -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(_FITTED.read_text(encoding="utf-8"))
    return document
