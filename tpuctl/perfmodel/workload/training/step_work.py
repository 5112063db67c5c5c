"""What a training step asks of one device, in seconds at the peaks: nothing here is fitted."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tpuctl import catalog
from tpuctl.perfmodel.chip.gemm import peak
from tpuctl.perfmodel.chip.numeric import Figure
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware
from tpuctl.perfmodel.workload.train_run import TrainRun
from tpuctl.perfmodel.workload.training import layer_work
from tpuctl.perfmodel.workload.training.layer_work import Matrix
from tpuctl.perfmodel.workload.training.mesh_axes import Crossing, crossings
from tpuctl.perfmodel.workload.transformer import ParameterCount, Transformer, count_parameters

WIRE_BYTES = 2
"""Weights are gathered and gradients are summed in bfloat16."""

DCN_BYTES_PER_S_UNKNOWN = 3.125e9
"""25 Gbit/s a device where no rate is public: the least of the generations with one."""

PIPELINE_PARTS = 4
"""Microbatches a stage, where nobody says how many."""

WIDE = 512
"""A product of matrices this wide has as much to start and to end as to multiply."""

_RECOMPUTED: Mapping[str, float] = {"none": 0.0, "minimal": 0.0, "full": 1.0, "offload": 0.5}
"""Forward passes of a layer that the backward pass does again; of what waits in the host's memory,
frameworks keep attention's projections, and compute the MLP again."""
_FLASH_BACKWARD = 2.5
"""The backward kernel has five products where the forward one has two."""


@dataclass(frozen=True, slots=True)
class StepWork:
    """Seconds at the peaks of one device, each a number or an array.

    `matmul`, `experts`, `vocab` and `attention` are what the MXU multiplies, `attention` without
    the `attention_padding` (1 for none) of heads that are narrower than it, `attention_token` what
    attention to one more token takes, and `masking`, which brings tokens to experts with a
    capacity; `_again` is computed again, `_narrow` is more for
    narrow matrices. `matmul_memory`, `expert_memory`, `reread`, `elementwise`, `dispatch`,
    `quantize`, `logits` and `optimizer` are what moves in HBM; `fsdp`, `tensor`, `sequence`,
    `expert`, `data`, `pipeline` and `dcn` collectives at the links' peak. `layer_passes` counts
    layers that are started; `bubble` is how long a pipeline stage waits over what recurs for each
    microbatch: all but `optimizer`, `data` and `dcn_once`, a part of `dcn`; `slice_doublings` is
    how often one slice was doubled.
    """

    matmul: Figure
    matmul_again: Figure
    matmul_narrow: Figure
    experts: Figure
    experts_again: Figure
    experts_narrow: Figure
    vocab: Figure
    attention: Figure
    attention_token: Figure
    attention_padding: Figure
    matmul_memory: Figure
    expert_memory: Figure
    reread: Figure
    elementwise: Figure
    dispatch: Figure
    masking: Figure
    quantize: Figure
    logits: Figure
    optimizer: Figure
    fsdp: Figure
    tensor: Figure
    sequence: Figure
    expert: Figure
    data: Figure
    pipeline: Figure
    dcn: Figure
    dcn_once: Figure
    layer_passes: Figure
    bubble: Figure
    slice_doublings: Figure


def step_work(hardware: SliceHardware, model: Transformer, run: TrainRun) -> StepWork:
    """The work of one optimizer step of `run` on each device of `hardware`'s slices."""
    cut = run.parallelism
    stages = np.asarray(cut.pipeline * cut.dcn_pipeline, float)
    tokens = np.asarray(run.tokens / (cut.batch_ways * cut.sequence), float)
    again = _RECOMPUTED[run.remat]
    passes = _passes(run, stages)
    computed = _computed(hardware.device, model, run, tokens / passes)
    hbm = hardware.device.hbm_bytes_per_s
    vocab_cut = cut.tensor * stages
    vocab_bytes = 4 * tokens * model.vocab / vocab_cut
    vocab_passes = 6 * (1 + model.mtp_layers)
    vocab_flops = vocab_passes * tokens * model.hidden * model.vocab / vocab_cut
    count = count_parameters(model)
    stored = _stored(run, count, stages)
    state_bytes = 2 * run.weight_bytes + run.gradient_bytes + 2 * run.moment_bytes
    return StepWork(
        **{name: passes * part / stages for name, part in computed.items()},
        vocab=vocab_flops / hardware.device.bf16_flops,
        **_attention(hardware.device, model, run, tokens),
        logits=3 * vocab_bytes / hbm,
        optimizer=stored * state_bytes / hbm,
        layer_passes=passes * (2 + again) * model.layers / stages,
        slice_doublings=np.log2(np.asarray(cut.slices, float)),
        bubble=(stages - 1) / passes,
        **_exchanged(hardware, model, run, tokens, passes),
    )


@dataclass(frozen=True, slots=True)
class _Products:
    """Seconds at the peak, padded to the MXU's side, and the bytes that move.

    `again` is what the backward pass computes again. `narrow` is both, each matrix in proportion to
    how narrow it is: as often as WIDE fits into its sides.
    """

    once: Figure
    again: Figure
    narrow: Figure
    moved_bytes: Figure


def _computed(
    device: catalog.Chip, model: Transformer, run: TrainRun, tokens: Figure
) -> dict[str, Figure]:
    """Seconds of the forward and backward passes of all layers over `tokens` of a device.

    What is recomputed is apart: `again` of the matrices, and in the other parts a share.
    """
    tensor = np.asarray(run.parallelism.tensor, float)
    hbm = device.hbm_bytes_per_s
    passes = 3 + _RECOMPUTED[run.remat]
    dense = _products(device, model, run, tokens, "dense")
    experts = _products(device, model, run, tokens, "experts")
    numbers = passes * tokens * _activation_numbers(model) / tensor
    places = run.capacity_factor or 1.0
    return {
        "matmul": dense.once,
        "matmul_again": dense.again,
        "matmul_narrow": dense.narrow,
        "experts": experts.once * places,
        "experts_again": experts.again * places,
        "experts_narrow": experts.narrow * places,
        "matmul_memory": dense.moved_bytes / hbm,
        "expert_memory": experts.moved_bytes / hbm,
        "reread": _reread_s(device, run, dense, experts),
        "elementwise": 2 * numbers / hbm,
        "quantize": (0.0 if run.precision == "bf16" else 3.0) * numbers / hbm,
        **_dispatch(device, model, run, passes * tokens / tensor),
    }


def _reread_s(device: catalog.Chip, run: TrainRun, dense: _Products, experts: _Products) -> Figure:
    """Seconds in which the operands of all products are read from HBM, a block of a result each.

    The result is made in square float32 blocks that fill half of a TensorCore's VMEM; for each, a
    band of both operands is read: a byte an operation over the block's side, for every byte of an
    operand's number.
    """
    side = math.sqrt(device.vmem_bytes_per_tensorcore / 8)
    operand_bytes = 2 if run.precision == "bf16" else 1
    products = dense.once + dense.again + experts.once + experts.again
    operations = products * peak(device, run.precision)
    return operations * operand_bytes / side / device.hbm_bytes_per_s


def _dispatch(
    device: catalog.Chip, model: Transformer, run: TrainRun, tokens: Figure
) -> dict[str, Figure]:
    """Seconds to bring tokens to their experts and back.

    Without a capacity they are sorted: each copy is read and written twice. With one, they are
    multiplied with a mask of tokens and places (GShard, arXiv 2006.16668).
    """
    routed = model.experts.per_token * model.expert_layers if model.experts else 0
    numbers = routed * tokens * model.hidden
    if run.capacity_factor is None:
        return {"dispatch": 4 * 2 * numbers / device.hbm_bytes_per_s, "masking": 0.0 * numbers}
    places = run.sequence_tokens * run.capacity_factor
    return {"dispatch": 0.0 * numbers, "masking": 4 * numbers * places / device.bf16_flops}


def _products(
    device: catalog.Chip, model: Transformer, run: TrainRun, tokens: Figure, kind: str
) -> _Products:
    operand_bytes = 2 if run.precision == "bf16" else 1
    case = (model, device.mxu_side, run.remat, operand_bytes, kind)
    once, again, narrow, row_bytes, weight_bytes = _of_tensor(case, run.parallelism.tensor)
    rate = peak(device, run.precision)
    weights = weight_bytes / run.parallelism.expert if kind == "experts" else weight_bytes
    return _Products(
        once=tokens * once / rate,
        again=tokens * again / rate,
        narrow=tokens * narrow / rate,
        moved_bytes=tokens * row_bytes + weights,
    )


def _of_tensor(case: tuple[Any, ...], tensor: Any) -> np.ndarray:
    """What a token costs, five figures by ways of tensor parallelism: there are few of them."""
    if np.ndim(tensor) == 0:
        return np.array(_token_cost(*case, int(tensor)))
    ways, where = np.unique(tensor, return_inverse=True)
    costs = np.array([_token_cost(*case, int(one)) for one in ways])
    return costs.T[:, where.reshape(np.shape(tensor))]


@lru_cache(maxsize=4096)
def _token_cost(
    model: Transformer, side: int, remat: str, operand_bytes: int, kind: str, tensor: int
) -> tuple[float, float, float, float, float]:
    """Operations of a token: once, again and by how narrow; bytes a token, and bytes of weights."""
    once = again = narrow = row_bytes = weight_bytes = 0.0
    matrices = layer_work.expert_matrices if kind == "experts" else layer_work.dense_matrices
    for matrix in matrices(model):
        more = _passes_again(remat, matrix)
        k = matrix.inputs / (tensor if matrix.cut == "inputs" else 1)
        n = matrix.outputs / (tensor if matrix.cut == "outputs" else 1)
        copies = matrix.count * matrix.per_token
        padded = 2 * copies * math.ceil(k / side) * side * math.ceil(n / side) * side
        once, again = once + 3 * padded, again + more * padded
        narrow += (3 + more) * padded * (WIDE / k + WIDE / n)
        row_bytes += (3 + more) * copies * (operand_bytes * k + 2 * n)
        weights = matrix.count * (matrix.experts or 1) * k * n
        weight_bytes += (3 + more) * operand_bytes * weights
    return once, again, narrow, row_bytes, weight_bytes


def _passes_again(remat: str, matrix: Matrix) -> float:
    """Forward passes of one matrix that the backward pass does again."""
    if matrix.is_last or (remat == "offload" and matrix.is_attention):
        return 0.0
    return float(_RECOMPUTED[remat] > 0)


def _activation_numbers(model: Transformer) -> float:
    """Numbers a token that norms, residuals, gates and rotations read and write, all layers."""
    heads = model.heads * sum(model.head_dims)
    mlp = (model.dense_layers + model.wide_mlp_layers) * model.mlp_hidden
    if experts := model.experts:
        routed = experts.per_token * experts.hidden
        mlp += model.expert_layers * (routed + experts.shared_width)
    return 8 * model.layers * model.hidden + model.layers * 2 * heads + model.mlp_matrices * mlp


def _attention(
    device: catalog.Chip, model: Transformer, run: TrainRun, tokens: Figure
) -> dict[str, Figure]:
    """Seconds of attention's products, of those with one token, and by how much heads that fill no
    MXU make them longer."""
    passes = 1 + _FLASH_BACKWARD + (0.0 if run.remat == "none" else 1.0)
    length = np.asarray(run.sequence_tokens, float)
    operations = layer_work.attention_operations(model, length, 1)
    padded = layer_work.attention_operations(model, length, device.mxu_side)
    stages = run.parallelism.pipeline * run.parallelism.dcn_pipeline
    per_device = passes * tokens / (run.parallelism.tensor * stages)
    return {
        "attention": per_device * operations / device.bf16_flops,
        "attention_token": per_device * layer_work.attended_operations(model) / device.bf16_flops,
        "attention_padding": padded / operations,
    }


def _passes(run: TrainRun, stages: Figure) -> Figure:
    """Forward and backward passes of a step: each reads the weights for a part of the batch.

    They are the accumulation steps; where there are none, the microbatches that follow each other
    through a pipeline: four a stage, which GPipe asks for (arXiv 1811.06965), or as many as there
    are sequences.
    """
    steps = np.asarray(run.accumulation_steps, float)
    sequences = np.asarray(run.sequences / run.parallelism.batch_ways, float)
    microbatches = np.clip(sequences, 1, PIPELINE_PARTS * stages)
    return np.where((steps == 1) & (stages > 1), microbatches, steps)


def _gathered(run: TrainRun, count: ParameterCount, stages: Figure) -> Figure:
    """Parameters that a device multiplies with: all of its layers, and its experts of them."""
    cut = run.parallelism
    dense = count.total - count.experts
    return np.asarray((dense + count.experts / cut.expert) / (cut.tensor * stages), float)


def _stored(run: TrainRun, count: ParameterCount, stages: Figure) -> Figure:
    """Parameters that a device keeps; what no expert is, is cut over the expert ways, too."""
    cut = run.parallelism
    ways = cut.fsdp * cut.dcn_fsdp * cut.expert * cut.tensor * stages
    return np.asarray(count.total / ways, float)


def _exchanged(
    hardware: SliceHardware,
    model: Transformer,
    run: TrainRun,
    tokens: Figure,
    passes: Figure,
) -> dict[str, Figure]:
    """Seconds of the collectives of a step at the links' peak."""
    cut = run.parallelism
    over = crossings(hardware, cut)
    stages = np.asarray(cut.pipeline * cut.dcn_pipeline, float)
    count = count_parameters(model)
    shard = _stored(run, count, stages) * WIRE_BYTES
    gathered = _gathered(run, count, stages) * WIRE_BYTES
    again = _RECOMPUTED[run.remat]
    row_bytes = WIRE_BYTES * tokens * model.hidden
    routed = model.experts.per_token * model.expert_layers if model.experts else 0
    kv_bytes = WIRE_BYTES * tokens * cut.sequence * layer_work.cache_numbers(model) / cut.tensor
    return {
        "fsdp": 3 * passes * _gather_s(over["fsdp"], cut.fsdp, gathered),
        "tensor": _gather_s(over["tensor"], cut.tensor, row_bytes)
        * (8 + 4 * again)
        * model.layers
        / stages,
        "sequence": 3 * model.layers / stages * _gather_s(over["sequence"], cut.sequence, kv_bytes),
        "expert": np.where(np.greater(cut.expert, 1), 1.0, 0.0)
        * (2 * (2 + again) * routed / stages / cut.tensor)
        * row_bytes
        * over["expert"].exchange_s_per_byte,
        "data": 2 * _gather_s(over["data"], cut.data, shard),
        "pipeline": np.where(np.greater(cut.pipeline, 1), 2.0, 0.0)
        * row_bytes
        * over["pipeline"].gather_s_per_byte,
        **_between_slices(hardware, run, passes, shard, row_bytes),
    }


def _gather_s(over: Crossing, ways: Figure, size_bytes: Figure) -> Figure:
    return size_bytes * (1 - 1 / np.asarray(ways, float)) * over.gather_s_per_byte


def _between_slices(
    hardware: SliceHardware, run: TrainRun, passes: Figure, shard: Figure, row_bytes: Figure
) -> dict[str, Figure]:
    """Gradients are summed once a step, weights gathered in each pass, activations passed on."""
    cut = run.parallelism
    rate = hardware.device.dcn_bytes_per_s or DCN_BYTES_PER_S_UNKNOWN
    summed = 2 * shard * (1 - 1 / np.asarray(cut.dcn_data, float))
    gathered = 3 * passes * shard * (np.asarray(cut.dcn_fsdp, float) - 1)
    passed = np.where(np.greater(cut.dcn_pipeline, 1), 2.0, 0.0) * row_bytes
    return {"dcn": (summed + gathered + passed) / rate, "dcn_once": summed / rate}
