"""One pass of tokens through the layers of a transformer that serves: work, and seconds of it.

weights      every matrix is read once a pass (Pope et al., Efficiently Scaling Transformer
             Inference, arXiv 2211.05102). T tokens hit E (1 - (1 - k/E)^T) of E experts, k a token,
             where routing is even: only those are read.
compute      two operations for a parameter that a token goes through, and attention's products, at
             the rate of bfloat16: public rows of eight-bit weights show no more.
cache        keys and values that attention reads: all, a window's, a latent's, or a state. Heads
             are padded to 128 lanes; a device holds at least one KV head.
collectives  two all-reduces a layer over `tensor`; where `expert` cuts the experts, what a layer's
             experts give is exchanged between all ranks.
"""

from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np

from tpuctl.perfmodel.chip.collectives import S_PER_HOP, link_bytes
from tpuctl.perfmodel.chip.gemm import LANES
from tpuctl.perfmodel.chip.numeric import Figure, figure, maximum, minimum, round_up
from tpuctl.perfmodel.chip.torus import Axis
from tpuctl.perfmodel.workload.serving.serving_constants import ServingConstants
from tpuctl.perfmodel.workload.serving_run import ServingRun
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware
from tpuctl.perfmodel.workload.transformer import STATE_BYTES, Transformer, count_parameters

ACTIVATION_BYTES = 2
UNLIKE_TOKENS = 0.9
"""Power of the tokens that go to experts as if each were alone: routing is not even."""


@dataclass(frozen=True, slots=True)
class PassTokens:
    """What goes through one rank, of the ranks that requests are cut into.

    `length` is the tokens of one sequence in the cache, `attended` the tokens that one new token
    attends to on the mean; `ranks` share one copy of the experts and go through them together.
    """

    tokens: Figure
    sequences: Figure
    length: Figure
    attended: Figure
    ranks: Figure


@dataclass(frozen=True, slots=True)
class PassWork:
    """Seconds of one pass at the peaks of a device, and counts of what costs time by itself."""

    weights_s: Figure
    experts_s: Figure
    compute_s: Figure
    expert_compute_s: Figure
    cache_s: Figure
    attentions: Figure
    """Sequences, each in every layer."""
    wire_s: Figure
    collectives: Figure
    layers: Figure
    expert_layers: Figure
    linear_layers: Figure


def pass_work(
    hardware: SliceHardware, model: Transformer, run: ServingRun, through: PassTokens
) -> PassWork:
    """The work of one pass on the device that has the most of it."""
    device, tensor = hardware.device, figure(run.parallelism.tensor)
    bandwidth, peak = float(device.hbm_bytes_per_s), float(device.bf16_flops)
    dense, one_expert = weight_parameters(model)
    experts = model.experts
    expert_ways = figure(run.parallelism.expert) * tensor
    group_tokens = through.tokens * through.ranks
    per_token = experts.per_token if experts else 0
    wire_s, collectives = _exchanges(hardware, model, run, through)
    return PassWork(
        weights_s=run.weight_bytes * dense / tensor / bandwidth,
        experts_s=run.bytes_of_expert_weight
        * one_expert
        * experts_hit(model, group_tokens)
        / expert_ways
        / bandwidth,
        compute_s=(2 * dense * through.tokens + _attention_operations(model, through))
        / tensor
        / peak,
        expert_compute_s=2 * one_expert * per_token * group_tokens / expert_ways / peak,
        cache_s=through.sequences
        * (sequence_cache_bytes(model, run, through.length) + _state_bytes(model, run))
        / bandwidth,
        attentions=through.sequences * model.layers,
        wire_s=wire_s,
        collectives=collectives,
        layers=figure(model.layers),
        expert_layers=figure(model.expert_layers),
        linear_layers=figure(model.attention.linear_layers),
    )


def pass_terms(work: PassWork, constants: ServingConstants) -> dict[str, Figure]:
    """Seconds of weights, compute, cache, collectives and layers of one pass."""
    return {
        "weights": work.weights_s / constants.weight_efficiency
        + work.experts_s / constants.expert_efficiency,
        "compute": work.compute_s / constants.prompt_efficiency
        + work.expert_compute_s / constants.prompt_expert_efficiency,
        "cache": work.cache_s / constants.cache_efficiency
        + work.attentions * constants.attention_s,
        "collectives": work.collectives * constants.collective_s
        + work.wire_s / constants.ici_efficiency,
        "layers": work.layers * constants.layer_s
        + work.expert_layers * constants.expert_layer_s
        + work.linear_layers * constants.linear_layer_s,
    }


def weight_parameters(model: Transformer) -> tuple[int, int]:
    """Parameters that every pass reads, and those of one routed expert in all its layers."""
    count = count_parameters(model)
    experts = model.experts
    routers = model.expert_layers * model.hidden * experts.count if experts else 0
    dense = count.attention + count.mlp + count.shared_experts + model.vocab * model.hidden
    one_expert = (count.experts - routers) // experts.count if experts else 0
    return dense + routers, one_expert


def experts_hit(model: Transformer, tokens: Figure) -> Figure:
    """Distinct experts of a layer that so many tokens go to."""
    if model.experts is None:
        return 0.0 * tokens
    count, per_token = model.experts.count, model.experts.per_token
    return count * (1 - (1 - per_token / count) ** (tokens**UNLIKE_TOKENS))


def sequence_cache_bytes(model: Transformer, run: ServingRun, length: Figure) -> Figure:
    """Bytes of one sequence's cache on one device, read for every token of it."""
    attention, tensor = model.attention, figure(run.parallelism.tensor)
    windowed = attention.window_layers * minimum(length, figure(attention.window_tokens))
    full_numbers = _token_numbers(model, model.full_kv_heads, model.full_head_dim, tensor)
    numbers = model.full_layers * length * full_numbers
    numbers = numbers + windowed * _token_numbers(model, model.kv_heads, model.head_dim, tensor)
    kept = numbers * run.cache_bytes / figure(run.parallelism.sequence)
    return kept + _state_bytes(model, run)


def _state_bytes(model: Transformer, run: ServingRun) -> Figure:
    """Bytes of the states of linear attention; a step reads them and writes them."""
    attention = model.attention
    numbers = attention.linear_layers * attention.linear_state
    return STATE_BYTES * numbers / figure(run.parallelism.tensor)


def attended_tokens(model: Transformer, length: Figure) -> Figure:
    """Tokens that a token after `length` others attends to, on the mean over all layers."""
    attention = model.attention
    windowed = attention.window_layers * minimum(length, figure(attention.window_tokens))
    return (model.full_layers * length + windowed) / model.layers


def _token_numbers(model: Transformer, kv_heads: int, head_dim: int, tensor: Figure) -> Figure:
    """Numbers that one device keeps of a token in a layer."""
    latent = model.attention.latent
    if latent is not None:
        return round_up(float(latent.kv_rank), LANES) + round_up(float(latent.rope_dim), LANES)
    return 2 * maximum(kv_heads / tensor, 1.0) * round_up(float(head_dim), LANES)


def _attention_operations(model: Transformer, through: PassTokens) -> Figure:
    """Scores and sums of values, two products of a head's width for every token attended to."""
    latent = model.attention.latent
    width = latent.kv_rank + latent.rope_dim / 2 if latent else model.head_dim
    return 4 * model.heads * width * model.layers * through.tokens * through.attended


def _exchanges(
    hardware: SliceHardware, model: Transformer, run: ServingRun, through: PassTokens
) -> tuple[Figure, Figure]:
    """Seconds of all exchanges on the wire at its peak, with the hops, and how many there are."""
    tensor, expert = figure(run.parallelism.tensor), figure(run.parallelism.expert)
    rows_bytes = ACTIVATION_BYTES * model.hidden * through.tokens
    link_bytes_per_s = float(hardware.device.ici_bytes_per_s_per_link)
    across = model.expert_layers * (expert > 1)
    inside = 2 * model.layers - across
    one, all_ = _group(hardware, tensor), _group(hardware, tensor * expert)
    inside_s = maximum(one.hops * S_PER_HOP, one.share * rows_bytes / link_bytes_per_s)
    group_bytes = rows_bytes * through.ranks
    across_s = maximum(all_.hops * S_PER_HOP, all_.share * group_bytes / link_bytes_per_s)
    return inside * inside_s + across * across_s, inside * one.is_many + 2 * across * all_.is_many


@dataclass(frozen=True, slots=True)
class _Group:
    """Of an all-reduce in a group: bytes over the busiest link for each byte, and hops."""

    is_many: Figure
    share: Figure
    hops: Figure


def _group(hardware: SliceHardware, devices: Figure) -> _Group:
    """The group of each size that is asked for."""
    if isinstance(devices, float):
        return _Group(*_group_of(hardware, devices))
    sizes, places = np.unique(devices, return_inverse=True)
    rows = np.array([_group_of(hardware, size) for size in sizes.tolist()])
    shape = np.shape(devices)
    return _Group(*(rows[:, i][places].reshape(shape) for i in range(3)))


@cache
def _group_of(hardware: SliceHardware, devices: float) -> tuple[float, float, float]:
    """Whether devices exchange at all, the share of the bytes on a link, and the hops."""
    if devices <= 1:
        return 0.0, 0.0, 0.0
    axes = sub_axes(hardware, devices / hardware.devices_per_chip)
    if prod(axis.length for axis in axes) <= 1:
        return 1.0, 0.0, 0.0
    hops = 2.0 * sum(axis.hops for axis in axes)
    return 1.0, float(link_bytes("all_reduce", axes, 1.0)), hops


def sub_axes(hardware: SliceHardware, chips: float) -> tuple[Axis, ...]:
    """The part of a slice that so many chips fill, as near to a cube as its axes allow."""
    lengths = [1] * len(hardware.axes)
    while prod(lengths) < min(chips, hardware.chips):
        shorter = [i for i, axis in enumerate(hardware.axes) if lengths[i] < axis.length]
        i = min(shorter, key=lambda index: lengths[index])
        lengths[i] = min(2 * lengths[i], hardware.axes[i].length)
    return tuple(
        Axis(length, axis.is_ring and length == axis.length)
        for length, axis in zip(lengths, hardware.axes, strict=True)
    )
