"""How long one optimizer step of a transformer takes.

    sum of what the device does in turn + what its collectives leave exposed + start costs

computing  products at what the MXU reaches of its peak; a product and what it moves in HBM are
           added, as fits large products better than the longer of both
collective a share of each is exposed; the rest hides behind computing as far as there is enough
stragglers a share of computing for every doubling of the slices: the slowest is waited for
bubble     stages of a pipeline wait (stages - 1) / microbatches of what recurs for each microbatch
           (GPipe, arXiv 1811.06965); what a step does once makes no stage wait

All is multiplied by the generation's slowness. The constants are fitted (`train_constants`).
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np

from tpuctl.perfmodel.chip.numeric import Figure
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware
from tpuctl.perfmodel.workload.train_run import TrainRun
from tpuctl.perfmodel.workload.training.step_work import StepWork, step_work
from tpuctl.perfmodel.workload.training.train_constants import (
    TrainConstants,
    train_constants,
    train_sources,
    train_spread,
)
from tpuctl.perfmodel.workload.transformer import Transformer
from tpuctl.perfmodel.workload.workload_estimate import WorkloadEstimate, longest_term

COLLECTIVES: Mapping[str, str] = {
    "fsdp": "exposed_fsdp",
    "data": "exposed_fsdp",
    "tensor": "exposed_tensor",
    "sequence": "exposed_tensor",
    "pipeline": "exposed_tensor",
    "expert": "exposed_expert",
    "dcn": "exposed_dcn",
}
"""Collective -> the constant that says what is exposed of it."""


def train_step(hardware: SliceHardware, model: Transformer, run: TrainRun) -> WorkloadEstimate:
    """The modelled seconds of one optimizer step on the slices that `run.parallelism` spans.

    `hardware` is one slice; arrays in `run` broadcast. Whether the plan fits in memory is not
    asked.
    """
    constants = train_constants(hardware.generation)
    terms, hidden = step_terms(step_work(hardware, model, run), constants)
    value = reduce(add, terms.values())
    spread = train_spread(hardware.generation, model)
    return WorkloadEstimate(
        value_s=_plain(value),
        low_s=_plain(value * spread.low),
        high_s=_plain(value * spread.high),
        terms={name: _plain(term, value) for name, term in terms.items()},
        hidden={name: _plain(term, value) for name, term in hidden.items()},
        bound=longest_term(terms, value),
        sources=train_sources(hardware.generation),
    )


def step_terms(
    work: StepWork, constants: TrainConstants
) -> tuple[dict[str, Figure], dict[str, Figure]]:
    """Seconds by term, which add up to the step, and what is hidden of the collectives."""
    terms, hidden = _busy_s(work, constants)
    terms["launch"] = terms["launch"] + constants.step_launch_s
    terms["bubble"] = _bubble_s(work, constants)
    slowness = constants.slowness
    return (
        {name: np.asarray(term * slowness) for name, term in terms.items()},
        {name: np.asarray(term * slowness) for name, term in hidden.items()},
    )


def _bubble_s(work: StepWork, constants: TrainConstants) -> Figure:
    """What stages wait over the work that recurs for each microbatch."""
    if not np.any(work.bubble):
        return 0.0
    recurring = replace(work, optimizer=0.0, data=0.0, dcn=work.dcn - work.dcn_once)
    return work.bubble * reduce(add, _busy_s(recurring, constants)[0].values())


def _busy_s(
    work: StepWork, constants: TrainConstants
) -> tuple[dict[str, Figure], dict[str, Figure]]:
    """Seconds by term without the start of a step and without waiting, and what is hidden."""
    computing = _computing_s(work, constants)
    exposed, hidden = _exposed_s(work, constants, computing)
    memory = constants.memory_efficiency
    terms = {
        "matmul": _matmul_s(work, constants),
        "experts": _experts_s(work, constants),
        "attention": _attention_s(work, constants),
        "memory": _memory_s(work, constants),
        "dispatch": constants.dispatch_traffic * work.dispatch / memory
        + constants.masked_share * work.masking / constants.matmul_efficiency,
        "optimizer": work.optimizer / memory,
        **exposed,
        "stragglers": constants.slice_wait * work.slice_doublings * computing,
        "launch": constants.layer_launch_s * work.layer_passes,
    }
    return terms, hidden


def _computing_s(work: StepWork, constants: TrainConstants) -> Figure:
    """What collectives can hide behind."""
    return (
        _matmul_s(work, constants)
        + _experts_s(work, constants)
        + _attention_s(work, constants)
        + _memory_s(work, constants)
    )


def _matmul_s(work: StepWork, constants: TrainConstants) -> Figure:
    layers = (
        work.matmul
        + constants.recomputed_share * work.matmul_again
        + constants.narrow_matmul * work.matmul_narrow
    )
    return (layers + work.vocab) / constants.matmul_efficiency


def _experts_s(work: StepWork, constants: TrainConstants) -> Figure:
    layers = (
        work.experts
        + constants.recomputed_share * work.experts_again
        + constants.narrow_experts * work.experts_narrow
    )
    return layers / constants.expert_efficiency


def _attention_s(work: StepWork, constants: TrainConstants) -> Figure:
    """Part of a padded head's cost is saved by kernels that turn the operands.

    A kernel reads the queries of a block, goes through the keys, rescales and writes: what is done
    once for a block weighs less in long sequences.
    """
    padding = work.attention_padding**constants.attention_padding
    attended = work.attention + constants.attention_start * work.attention_token
    return attended * padding / constants.attention_efficiency


def _memory_s(work: StepWork, constants: TrainConstants) -> Figure:
    moved = (
        constants.matmul_traffic * (work.matmul_memory + work.expert_memory)
        + constants.exposed_reread * work.reread
        + constants.elementwise_traffic * (work.elementwise + work.logits)
        + constants.quantize_traffic * work.quantize
    )
    return moved / constants.memory_efficiency


def _exposed_s(
    work: StepWork, constants: TrainConstants, computing: Figure
) -> tuple[dict[str, Figure], dict[str, Figure]]:
    """What is exposed of every collective, and what is hidden behind `computing` seconds."""
    all_s, behind_s = {}, {}
    for name, share in COLLECTIVES.items():
        efficiency = constants.dcn_efficiency if name == "dcn" else constants.ici_efficiency
        all_s[name] = getattr(work, name) / efficiency
        behind_s[name] = all_s[name] * (1 - getattr(constants, share))
    wanted = reduce(add, behind_s.values())
    fits = np.minimum(1.0, computing / np.maximum(wanted, 1e-30))
    hidden = {name: seconds * fits for name, seconds in behind_s.items()}
    return {name: all_s[name] - hidden[name] for name in all_s}, hidden


def _plain(value: Figure, like: Figure | None = None) -> Figure:
    """A float where the step is one number, else an array in its shape."""
    shape = value.shape if like is None else like.shape
    if not shape:
        return float(value)
    return value if value.shape == shape else np.broadcast_to(value, shape)
