"""One pass of tokens through the layers of a transformer that serves: work and seconds.

    max(weights, compute) + cache + collectives + layers + step + requests

weights:     every matrix is read once a pass (Pope et al., Efficiently Scaling Transformer
             Inference, arXiv 2211.05102). Of E experts, k a token, T tokens hit
             E (1 - (1 - k/E)^T) where routing is even: only those are read.
compute:     two operations for a parameter that a token goes through, and attention's products.
cache:       keys and values that attention reads; a window's, a latent or a linear state where
             layers have one. Heads are padded to 128 lanes; a device holds at least one KV head.
collectives: two all-reduces a layer over `tensor`; with experts over more ranks than `tensor` an
             all-gather and a reduce-scatter of all ranks' tokens a layer.
layers, step, requests: what a layer, a step of the engine and a request in it cost beside these.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tpuctl.perfmodel.chip.collectives import S_PER_HOP, link_bytes
from tpuctl.perfmodel.chip.numeric import Figure, figure, maximum, minimum, round_up
from tpuctl.perfmodel.chip.torus import Axis
from tpuctl.perfmodel.workload.parallelism import Parallelism
from tpuctl.perfmodel.workload.serving_run import ServingRun
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware
from tpuctl.perfmodel.workload.transformer import (
    Attention,
    Transformer,
    count_parameters,
)

_CONSTANTS = Path(__file__).with_name("decode_constants.json")
LANES = 128
STATE_BYTES = 4
"""Linear attention keeps its state in float32 (vllm, gated delta rule)."""
ACTIVATION_BYTES = 2


@dataclass(frozen=True, slots=True)
class ServingConstants:
    """Pooled constants of serving engines; an efficiency is a share of the device's peak."""

    weight_efficiency: float
    expert_efficiency: float
    cache_efficiency: float
    compute_efficiency: float
    ici_efficiency: float
    collective_s: float
    layer_s: float
    step_s: float
    request_s: float


@dataclass(frozen=True, slots=True)
class PassWork:
    """Tokens of one pass, for one of the ranks that the requests are cut into.

    `cached_tokens` are read from the cache, for all of the rank's sequences together;
    `attended_tokens` is the sum over tokens of how many each attends to.
    """

    tokens: Figure
    sequences: Figure
    length: Figure
    """Cached tokens of one sequence."""
    attended_tokens: Figure
    ranks: Figure
    """Ranks whose tokens share one copy of the experts."""


@cache
def serving_constants() -> ServingConstants:
    """The constants that the fit of docs/accuracy.md wrote."""
    return ServingConstants(**constants_document()["constants"])


@cache
def constants_document() -> Mapping[str, Any]:
    """The file of constants, factors and spreads."""
    document: Mapping[str, Any] = json.loads(_CONSTANTS.read_text(encoding="utf-8"))
    return document


def pass_terms(
    hardware: SliceHardware,
    model: Transformer,
    run: ServingRun,
    work: PassWork,
    constants: ServingConstants,
) -> dict[str, Figure]:
    """Seconds of weights, compute, cache, collectives and layers of one pass."""
    device = hardware.device
    bandwidth = float(device.hbm_bytes_per_s)
    dense, experts = _weight_bytes(model, run, work)
    return {
        "weights": dense / (bandwidth * constants.weight_efficiency)
        + experts / (bandwidth * constants.expert_efficiency),
        "compute": _flops(model, run.parallelism, work)
        / (_peak(hardware, run) * constants.compute_efficiency),
        "cache": cache_bytes_read(model, run, work.sequences, work.length)
        / (bandwidth * constants.cache_efficiency),
        "collectives": _collective_s(hardware, model, run.parallelism, work, constants),
        "layers": figure(model.layers * constants.layer_s),
    }


def _peak(hardware: SliceHardware, run: ServingRun) -> float:
    device = hardware.device
    if run.weight_bytes <= 1:
        return float(max(device.fp8_flops or 0, device.bf16_flops))
    return float(device.bf16_flops)


def weight_parameters(model: Transformer) -> tuple[int, int]:
    """Parameters that every pass reads, and those of one routed expert in all its layers."""
    count = count_parameters(model)
    output = model.vocab * model.hidden
    routers = model.expert_layers * model.hidden * (model.experts.count if model.experts else 0)
    dense = count.attention + count.mlp + count.shared_experts + output + routers
    one_expert = (count.experts - routers) // model.experts.count if model.experts else 0
    return dense, one_expert


def experts_hit(model: Transformer, tokens: Figure) -> Figure:
    """Distinct experts of a layer that so many tokens go to, where routing is even."""
    if model.experts is None:
        return 0.0 * tokens
    count, per_token = model.experts.count, model.experts.per_token
    return count * (1 - (1 - per_token / count) ** tokens)


def _weight_bytes(model: Transformer, run: ServingRun, work: PassWork) -> tuple[Figure, Figure]:
    ways = run.parallelism
    dense, one_expert = weight_parameters(model)
    hit = experts_hit(model, work.tokens * work.ranks)
    expert_ways = minimum(
        figure(ways.expert * ways.tensor), figure(model.experts.count if model.experts else 1)
    )
    return (
        run.weight_bytes * dense / figure(ways.tensor),
        run.weight_bytes * one_expert * hit / maximum(expert_ways, figure(ways.tensor)),
    )


def _flops(model: Transformer, ways: Parallelism, work: PassWork) -> Figure:
    dense, one_expert = weight_parameters(model)
    per_token = model.experts.per_token if model.experts else 0
    attended = 4 * model.heads * _scored_dim(model) * work.attended_tokens
    full_layers = model.layers - model.attention.linear_layers
    return (
        2 * dense * work.tokens / figure(ways.tensor)
        + 2 * one_expert * per_token * work.tokens * work.ranks / figure(ways.expert * ways.tensor)
        + attended * full_layers / figure(ways.tensor)
    )


def _scored_dim(model: Transformer) -> float:
    """The mean of what a score and a value cost of a head."""
    latent = model.attention.latent
    if latent is None:
        return float(model.head_dim)
    return latent.kv_rank + latent.rope_dim / 2


def cache_bytes_read(
    model: Transformer, run: ServingRun, sequences: Figure, length: Figure
) -> Figure:
    """Bytes of the cache that one device reads for a token of each of its sequences."""
    attention, tensor = model.attention, figure(run.parallelism.tensor)
    full = model.layers - attention.window_layers - attention.linear_layers
    seen = full * length + attention.window_layers * minimum(
        length, figure(attention.window_tokens)
    )
    state = 2 * STATE_BYTES * attention.linear_layers * attention.linear_state / tensor
    sequence_ways = figure(run.parallelism.sequence)
    token_bytes = cache_token_numbers(model, tensor) * run.cache_bytes / sequence_ways
    return sequences * (seen * token_bytes + state)


def cache_token_numbers(model: Transformer, tensor: Figure) -> Figure:
    """Numbers that one device keeps of a token in a layer that attends to all of them."""
    latent = model.attention.latent
    if latent is not None:
        return round_up(float(latent.kv_rank), LANES) + round_up(float(latent.rope_dim), LANES)
    heads = maximum(model.kv_heads / tensor, 1.0)
    return 2 * heads * round_up(float(model.head_dim), LANES)


def _collective_s(
    hardware: SliceHardware,
    model: Transformer,
    ways: Parallelism,
    work: PassWork,
    constants: ServingConstants,
) -> Figure:
    """Two all-reduces a layer; experts' tokens are gathered from, and scattered to, all ranks."""
    row_bytes = ACTIVATION_BYTES * model.hidden
    tensor, expert = figure(ways.tensor), figure(ways.expert)
    rate = hardware.device.ici_bytes_per_s_per_link * constants.ici_efficiency
    reduces = 2 * model.layers - model.expert_layers * (expert > 1)
    inside = _group(hardware, tensor)
    reduce_s = (inside.is_many * constants.collective_s) + maximum(
        inside.hops * S_PER_HOP, inside.share * work.tokens * row_bytes / rate
    )
    across = _group(hardware, tensor * expert)
    across_s = (across.is_many * constants.collective_s) + maximum(
        across.hops * S_PER_HOP, across.share * work.tokens * work.ranks * row_bytes / rate
    )
    return reduces * reduce_s + model.expert_layers * (expert > 1) * across_s


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
        open_axes = [i for i, axis in enumerate(hardware.axes) if lengths[i] < axis.length]
        i = min(open_axes, key=lambda index: lengths[index])
        lengths[i] = min(2 * lengths[i], hardware.axes[i].length)
    return tuple(
        Axis(length, axis.is_ring and length == axis.length)
        for length, axis in zip(lengths, hardware.axes, strict=True)
    )


def attended(attention: Attention, layers: int, length: Figure) -> Figure:
    """Tokens that one token attends to, on the mean over the layers that keep a cache."""
    kept = max(layers - attention.linear_layers, 1)
    inside = attention.window_layers * minimum(length, figure(attention.window_tokens))
    return ((kept - attention.window_layers) * length + inside) / kept
