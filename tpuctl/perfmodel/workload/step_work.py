"""What a training step asks of one device, in seconds at the peaks: nothing here is fitted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tpuctl import catalog
from tpuctl.perfmodel.chip.gemm import peak
from tpuctl.perfmodel.chip.numeric import Figure
from tpuctl.perfmodel.workload import layer_work
from tpuctl.perfmodel.workload.layer_work import Matrix
from tpuctl.perfmodel.workload.mesh_axes import Crossing, crossings
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware
from tpuctl.perfmodel.workload.train_run import TrainRun
from tpuctl.perfmodel.workload.transformer import ParameterCount, Transformer, count_parameters

WIRE_BYTES = 2
"""Weights are gathered and gradients are summed in bfloat16."""

DCN_BYTES_PER_S_UNKNOWN = 3.125e9
"""25 Gbit/s a device where no rate is public: the least of the generations with one."""

WIDE = 512
"""A product of matrices this wide has as much to start and to end as to multiply."""

_RECOMPUTED: Mapping[str, float] = {"none": 0.0, "minimal": 0.0, "full": 1.0, "offload": 0.0}
"""Forward passes of the layers' matrices that the backward pass does again."""
_FLASH_BACKWARD = 2.5
"""The backward kernel has five products where the forward one has two."""


@dataclass(frozen=True, slots=True)
class StepWork:
    """Seconds at the peaks of one device, each a number or an array.

    `matmul`, `experts`, `vocab` and `attention` are what the MXU multiplies, `attention` without
    the `attention_padding` (1 for none) of heads that are narrower than it, and `masking`, which
    brings tokens to experts with a capacity; `_again` is computed again, `_narrow` is more
    for narrow matrices; `matmul_memory`,
    `expert_memory`, `elementwise`, `dispatch`, `quantize`, `logits` and `optimizer` what moves in
    HBM. `fsdp`, `tensor`, `sequence`, `expert`, `data`, `pipeline`, `dcn` are collectives at the
    links' peak. `layer_passes` counts layers that are started; `bubble` is the share of the busy
    time in which a pipeline stage waits.
    """

    matmul: Figure
    matmul_again: Figure
    matmul_narrow: Figure
    experts: Figure
    experts_again: Figure
    experts_narrow: Figure
    vocab: Figure
    attention: Figure
    attention_padding: Figure
    matmul_memory: Figure
    expert_memory: Figure
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
    layer_passes: Figure
    bubble: Figure


def step_work(hardware: SliceHardware, model: Transformer, run: TrainRun) -> StepWork:
    """The work of one optimizer step of `run` on each device of `hardware`'s slices."""
    cut = run.parallelism
    stages = np.asarray(cut.pipeline * cut.dcn_pipeline, float)
    tokens = np.asarray(run.tokens / (cut.batch_ways * cut.sequence), float)
    again = _RECOMPUTED[run.remat]
    computed = _computed(hardware.device, model, run, tokens / run.accumulation_steps)
    hbm = hardware.device.hbm_bytes_per_s
    vocab_cut = cut.tensor * stages
    vocab_bytes = 4 * tokens * model.vocab / vocab_cut
    vocab_passes = 6 * (1 + model.mtp_layers)
    vocab_flops = vocab_passes * tokens * model.hidden * model.vocab / vocab_cut
    stored = _stored(run, count_parameters(model), stages)
    state_bytes = 2 * run.weight_bytes + run.gradient_bytes + 2 * run.moment_bytes
    return StepWork(
        **{name: run.accumulation_steps * part / stages for name, part in computed.items()},
        vocab=vocab_flops / hardware.device.bf16_flops,
        **_attention(hardware.device, model, run, tokens),
        logits=3 * vocab_bytes / hbm,
        optimizer=stored * state_bytes / hbm,
        layer_passes=run.accumulation_steps * (2 + again) * model.layers / stages,
        bubble=(stages - 1) / np.maximum(stages, run.accumulation_steps),
        **_exchanged(hardware, model, run, tokens, stored),
    )


def _computed(
    device: catalog.Chip, model: Transformer, run: TrainRun, tokens: Figure
) -> dict[str, Figure]:
    """Seconds of the forward and backward passes of all layers over `tokens` of a device.

    What is recomputed is apart: `again` of the matrices, and in the other parts a share.
    """
    tensor = np.asarray(run.parallelism.tensor, float)
    hbm = device.hbm_bytes_per_s
    passes = 3 + _RECOMPUTED[run.remat]
    dense = _products(device, run, layer_work.dense_matrices(model), tokens)
    experts = _products(device, run, layer_work.expert_matrices(model), tokens)
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
        "elementwise": 2 * numbers / hbm,
        "quantize": (0.0 if run.precision == "bf16" else 3.0) * numbers / hbm,
        **_dispatch(device, model, run, passes * tokens / tensor),
    }


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


def _products(
    device: catalog.Chip, run: TrainRun, matrices: Iterable[Matrix], tokens: Figure
) -> _Products:
    cut, side = run.parallelism, device.mxu_side
    operand_bytes = 2 if run.precision == "bf16" else 1
    tensor = np.asarray(cut.tensor, float)
    once = again = narrow = moved = 0.0 * tokens * tensor
    for matrix in matrices:
        more = 0.0 if matrix.is_last else _RECOMPUTED[run.remat]
        k = matrix.inputs / (tensor if matrix.cut == "inputs" else 1)
        n = matrix.outputs / (tensor if matrix.cut == "outputs" else 1)
        copies, rows = matrix.count, tokens
        if matrix.experts:
            copies = copies * matrix.experts / cut.expert
            rows = tokens * matrix.per_token * cut.expert / matrix.experts
        padded = 2 * copies * rows * np.ceil(k / side) * side * np.ceil(n / side) * side
        once, again = once + 3 * padded, again + more * padded
        narrow = narrow + (3 + more) * padded * (WIDE / k + WIDE / n)
        moved = moved + (3 + more) * copies * (operand_bytes * (rows * k + k * n) + 2 * rows * n)
    rate = peak(device, run.precision)
    return _Products(once / rate, again / rate, narrow / rate, moved)


def _activation_numbers(model: Transformer) -> float:
    """Numbers a token that norms, residuals, gates and rotations read and write, all layers."""
    heads = model.heads * sum(layer_work.head_dims(model))
    mlp = (model.dense_layers + model.wide_mlp_layers) * model.mlp_hidden
    if experts := model.experts:
        shared = experts.shared * (experts.shared_hidden or experts.hidden)
        mlp += model.expert_layers * (experts.per_token * experts.hidden + shared)
    return 8 * model.layers * model.hidden + model.layers * 2 * heads + model.mlp_matrices * mlp


def _attention(
    device: catalog.Chip, model: Transformer, run: TrainRun, tokens: Figure
) -> dict[str, Figure]:
    """Seconds of attention's products, and by how much heads that fill no MXU make them longer."""
    passes = 1 + _FLASH_BACKWARD + (0.0 if run.remat == "none" else 1.0)
    length = np.asarray(run.sequence_tokens, float)
    operations = layer_work.attention_operations(model, length, 1)
    padded = layer_work.attention_operations(model, length, device.mxu_side)
    stages = run.parallelism.pipeline * run.parallelism.dcn_pipeline
    per_device = passes * tokens / (run.parallelism.tensor * stages)
    return {
        "attention": per_device * operations / device.bf16_flops,
        "attention_padding": padded / operations,
    }


def _stored(run: TrainRun, count: ParameterCount, stages: Figure) -> Figure:
    """Parameters that a device keeps."""
    cut = run.parallelism
    dense = count.total - count.experts
    kept = (dense + count.experts / cut.expert) / (cut.fsdp * cut.dcn_fsdp * cut.tensor * stages)
    return np.asarray(kept, float)


def _exchanged(
    hardware: SliceHardware,
    model: Transformer,
    run: TrainRun,
    tokens: Figure,
    stored: Figure,
) -> dict[str, Figure]:
    """Seconds of the collectives of a step at the links' peak."""
    cut = run.parallelism
    over = crossings(hardware, cut)
    stages = np.asarray(cut.pipeline * cut.dcn_pipeline, float)
    gathered = stored * cut.fsdp * cut.dcn_fsdp * WIRE_BYTES
    passes = run.accumulation_steps * 3
    again = _RECOMPUTED[run.remat]
    row_bytes = WIRE_BYTES * tokens * model.hidden
    routed = model.experts.per_token * model.expert_layers if model.experts else 0
    kv_bytes = WIRE_BYTES * tokens * cut.sequence * layer_work.cache_numbers(model) / cut.tensor
    return {
        "fsdp": passes * _gather_s(over["fsdp"], cut.fsdp, gathered),
        "tensor": _gather_s(over["tensor"], cut.tensor, row_bytes)
        * (8 + 4 * again)
        * model.layers
        / stages,
        "sequence": 3 * model.layers / stages * _gather_s(over["sequence"], cut.sequence, kv_bytes),
        "expert": np.where(np.greater(cut.expert, 1), 1.0, 0.0)
        * (2 * (2 + again) * routed / stages / cut.tensor)
        * row_bytes
        * over["expert"].exchange_s_per_byte,
        "data": 2 * _gather_s(over["data"], cut.data, stored * WIRE_BYTES),
        "pipeline": np.where(np.greater(cut.pipeline, 1), 2.0, 0.0)
        * row_bytes
        * over["pipeline"].gather_s_per_byte,
        "dcn": _dcn_s(hardware, run, stored, row_bytes),
    }


def _gather_s(over: Crossing, ways: Figure, size_bytes: Figure) -> Figure:
    return size_bytes * (1 - 1 / np.asarray(ways, float)) * over.gather_s_per_byte


def _dcn_s(hardware: SliceHardware, run: TrainRun, stored: Figure, row_bytes: Figure) -> Figure:
    """Between slices: gradients are summed, weights gathered, activations passed on."""
    cut = run.parallelism
    rate = hardware.device.dcn_bytes_per_s or DCN_BYTES_PER_S_UNKNOWN
    shard = stored * WIRE_BYTES
    summed = 2 * shard * (1 - 1 / np.asarray(cut.dcn_data, float))
    gathered = 3 * run.accumulation_steps * shard * (np.asarray(cut.dcn_fsdp, float) - 1)
    passed = np.where(np.greater(cut.dcn_pipeline, 1), 2.0, 0.0) * row_bytes
    return (summed + gathered + passed) / rate
