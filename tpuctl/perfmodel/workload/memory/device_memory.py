"""What one device of a slice holds at the peak of a training step, or of serving, by kind.

Bytes of parameters follow from the sharding and are exact; what is alive for a while is modelled,
with a few constants fitted to published peaks (`docs/accuracy.md`). A device that would hold more
than it has may still run: XLA then gathers the weights of one layer only, and computes more again
(its rematerialization pass), so that such peaks end at the memory. What it holds at least also has
places at experts for their even share of tokens only, as programs with a capacity have.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tpuctl.perfmodel.chip.gemm import LANES
from tpuctl.perfmodel.chip.numeric import round_up
from tpuctl.perfmodel.workload.memory.layer_numbers import (
    gathered_parameters,
    saved_numbers,
    working_numbers,
)
from tpuctl.perfmodel.workload.parallelism import Parallelism
from tpuctl.perfmodel.workload.serving_run import ServingRun
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware
from tpuctl.perfmodel.workload.train_run import TrainRun
from tpuctl.perfmodel.workload.transformer import STATE_BYTES, Transformer, count_parameters
from tpuctl.perfmodel.workload.workload_estimate import MemoryEstimate

SQUEEZE = 1.05
"""How far above the memory the least that a step holds may be, and yet run within it."""

QUANTIZED_SHARE = 0.15
"""What weights of one byte add to the weights that are gathered in two: their copy, for a while."""

COMPUTE_BYTES = 2
"""Bytes of a number in bfloat16, which layers compute in."""

CHUNK_TOKENS = 8192
"""Tokens of prompts that a serving engine reads in one step at most."""

_CONSTANTS = Path(__file__).with_name("memory_constants.json")
_SOURCES = ("memory_constants.json", "docs/accuracy.md")


@cache
def memory_constants() -> Mapping[str, float]:
    """The fitted constants, and the interval of what is not exact.

    `working_sets`: how often the numbers of one layer are held while it is computed;
    `dispatch_copies`: the same of tokens at experts; `logit_bytes`: bytes of a logit;
    `gathered_layers`: layers whose weights are gathered at once; `reserve_bytes`: what the runtime
    keeps.
    """
    constants: dict[str, float] = json.loads(_CONSTANTS.read_text("utf-8"))
    return constants


def train_memory(hardware: SliceHardware, model: Transformer, run: TrainRun) -> MemoryEstimate:
    """Bytes of one device at the peak of a training step; the run's figures broadcast.

    Weights, gradients and moments are cut by fsdp, tensor, expert and pipeline (ZeRO, arXiv
    1910.02054; the axes are those of MaxText's rules); the other axes copy them. Activations are
    those that the remat policy keeps. At the peak either one layer is computed backward, with the
    weights of `gathered_layers` layers, or the loss, with all logits and the output matrix; with a
    layer of multi-token prediction both: it lies between the logits and their loss.
    """
    constants = memory_constants()
    lasting = {**_parameter_kinds(model, run), **_activations(model, run, constants)}
    phases = _phases(model, run, constants)
    most = _at_peak(model, phases, phases.layer, constants["gathered_layers"])
    kinds = {**lasting, **most}
    least = {**lasting, **_at_peak(model, phases, phases.even_layer, layers=1)}
    return _estimate(hardware, kinds, least, exact=("weights", "optimizer"))


def serving_memory(hardware: SliceHardware, model: Transformer, run: ServingRun) -> MemoryEstimate:
    """Bytes of one device while all requests are at their last token; figures broadcast.

    Weights are cut by tensor, experts by expert, too; requests by data and expert. Layers with a
    window keep the window only, though an engine may allocate all: the high end does. The latent of
    latent attention is on every device, heads are cut until there is one a device.
    """
    ways = run.parallelism
    requests = np.ceil(run.requests / (ways.data * ways.expert))
    windowed, whole = _cache_bytes(model, run, requests, is_windowed=True), 0.0
    if model.attention.window_layers:
        whole = _cache_bytes(model, run, requests, is_windowed=False) - windowed
    kinds = {
        "weights": _serving_weights(model, run),
        "kv_cache": windowed,
        **_serving_buffers(model, run, requests, memory_constants()),
    }
    return _estimate(hardware, kinds, kinds, exact=("weights", "kv_cache"), more=whole)


def _parameter_kinds(model: Transformer, run: TrainRun) -> dict[str, Any]:
    ways = run.parallelism
    shards = ways.fsdp * ways.dcn_fsdp * ways.tensor * ways.expert
    parameters = count_parameters(model).total / (shards * ways.pipeline * ways.dcn_pipeline)
    return {
        "weights": parameters * run.weight_bytes,
        "gradients": parameters * run.gradient_bytes,
        "optimizer": parameters * run.moment_bytes,
    }


def _tokens(run: TrainRun) -> Any:
    """Tokens of one device in one forward and backward pass."""
    ways = run.parallelism
    shares = ways.batch_ways * ways.sequence * ways.tensor * run.accumulation_steps
    return run.tokens / shares


def _activations(
    model: Transformer, run: TrainRun, constants: Mapping[str, float]
) -> dict[str, Any]:
    layers = model.layers / (run.parallelism.pipeline * run.parallelism.dcn_pipeline)
    kept = layers * saved_numbers(model, run.remat) * COMPUTE_BYTES
    return {"activations": _tokens(run) * kept, "reserve": constants["reserve_bytes"]}


@dataclass(frozen=True, slots=True)
class _Phases:
    """What is alive for a while: bytes of one layer computed backward, and of the loss."""

    layer: Any
    even_layer: Any
    """The layer, if all experts get alike: with places for no more tokens (a capacity)."""
    layer_weights: Any
    """The weights of the layer, gathered."""
    logits: Any
    output_weights: Any


def _phases(model: Transformer, run: TrainRun, constants: Mapping[str, float]) -> _Phases:
    """The inputs of the layer and of the next one are held, too, if they come from the host."""
    tokens, numbers, ways = _tokens(run), working_numbers(model), run.parallelism
    held = constants["working_sets"] * numbers.dense
    held += 2 * model.hidden if run.remat == "offload" else 0
    sent = constants["dispatch_copies"] * numbers.dispatched
    outside, experts = gathered_parameters(model)
    gathered = (outside + experts / ways.expert) / ways.tensor
    copies = 1 if run.precision == "bf16" else 1 + QUANTIZED_SHARE
    return _Phases(
        layer=tokens * ((held + sent * _uneven(model, ways)) * COMPUTE_BYTES),
        even_layer=tokens * ((held + sent) * COMPUTE_BYTES),
        layer_weights=gathered * (COMPUTE_BYTES * copies),
        logits=tokens * (model.vocab * constants["logit_bytes"] / run.logit_chunks),
        output_weights=model.vocab * model.hidden * COMPUTE_BYTES / ways.tensor,
    )


def _at_peak(model: Transformer, phases: _Phases, layer: Any, layers: float) -> dict[str, Any]:
    """The phase that holds more, when the weights of so many layers are gathered; or both."""
    gathered = layers * phases.layer_weights
    if model.mtp_layers:
        weights = gathered + phases.output_weights
        logits = phases.logits
    else:
        is_layer = layer + gathered >= phases.logits + phases.output_weights
        layer = np.where(is_layer, layer, 0)
        logits = np.where(is_layer, 0, phases.logits)
        weights = np.where(is_layer, gathered, phases.output_weights)
    return {"layer_buffers": layer, "logits": logits, "gathered_weights": weights}


def _uneven(model: Transformer, ways: Parallelism) -> Any:
    """How many times its even share of tokens a device with experts of its own has places for.

    All tokens of a group may go to one device, each to as many experts as that one has of those
    that a token goes to (the buffer of MaxText's ragged all-to-all).
    """
    if model.experts is None:
        return 1.0
    own = model.experts.count / ways.expert
    return np.maximum(ways.expert * np.minimum(own / model.experts.per_token, 1), 1)


def _serving_weights(model: Transformer, run: ServingRun) -> Any:
    """An embedding is not quantized below two bytes a number; the width of an expert is padded."""
    count, ways = count_parameters(model), run.parallelism
    layers = count.total - count.embedding - count.experts - count.mtp
    embedding = count.embedding * max(run.weight_bytes, COMPUTE_BYTES)
    width = model.experts.hidden if model.experts else LANES
    experts = count.experts * round_up(float(width), LANES) / width * run.weight_bytes / ways.expert
    shards = ways.tensor * ways.pipeline
    return (embedding + layers * run.weight_bytes + experts) / shards


def _cache_bytes(model: Transformer, run: ServingRun, requests: Any, *, is_windowed: bool) -> Any:
    attention, ways = model.attention, run.parallelism
    tokens = run.prompt_tokens + run.output_tokens
    window = np.minimum(tokens, attention.window_tokens) if is_windowed else tokens
    kept = 1 - attention.cacheless_layers / max(model.layers - attention.linear_layers, 1)
    numbers = model.full_layers * tokens * _full_cache_numbers(model, run)
    own = _head_numbers(model.kv_heads, model.head_dim, run)
    numbers = kept * (numbers + attention.window_layers * window * own)
    state = attention.linear_layers * attention.linear_state * STATE_BYTES / ways.tensor
    return requests * (numbers * run.cache_bytes + state) / ways.pipeline


def _full_cache_numbers(model: Transformer, run: ServingRun) -> Any:
    attention = model.attention
    if attention.latent is not None:
        return round_up(float(attention.latent.kv_rank + attention.latent.rope_dim), LANES)
    return _head_numbers(model.full_kv_heads, model.full_head_dim, run)


def _head_numbers(kv_heads: int, head_dim: int, run: ServingRun) -> Any:
    """Numbers of keys and values of one token on one device.

    A head is never cut. Keys and values of a token lie in words of 32 bits side by side, so that
    one head of one byte a number takes the place of two (vLLM's layout of the cache on TPU).
    """
    pairs = 2 * np.ceil(kv_heads / run.parallelism.tensor)
    packed = max(1, round(4 / run.cache_bytes))
    return np.ceil(pairs / packed) * packed * round_up(float(head_dim), LANES)


def _serving_buffers(
    model: Transformer, run: ServingRun, requests: Any, constants: Mapping[str, float]
) -> dict[str, Any]:
    """One layer of the largest step of prompts, and the logits of all requests in float32."""
    tensor, numbers = run.parallelism.tensor, working_numbers(model)
    tokens = np.minimum(requests * run.prompt_tokens, CHUNK_TOKENS)
    layer = tokens * (numbers.dense + 2 * numbers.dispatched) * COMPUTE_BYTES / tensor
    return {
        "layer_buffers": layer,
        "logits": requests * model.vocab * 4 / tensor,
        "reserve": constants["reserve_bytes"] + 0 * layer,
    }


def _estimate(
    hardware: SliceHardware,
    kinds: dict[str, Any],
    least: dict[str, Any],
    exact: tuple[str, ...],
    more: Any = 0.0,
) -> MemoryEstimate:
    """The sum with its interval; `more` is only in its high end.

    A program that does not fit with `kinds` has what fits between `least` and those, at the cost of
    time; where not even `least` fits, it has `least`.
    """
    constants, usable = memory_constants(), float(hardware.device.usable_bytes)
    known = sum(kinds[name] for name in exact)
    demand, floor = sum(kinds.values()), sum(least.values())
    least_held = np.maximum(_squeezed(known, floor - known, usable), usable)
    value = np.where(demand > usable, least_held, demand)
    share = _share(value - known, floor - known, demand - known)
    return MemoryEstimate(
        value_bytes=_plain(value),
        low_bytes=_plain(_squeezed(known, constants["low"] * (floor - known), usable)),
        high_bytes=_plain(known + constants["high"] * (demand - known) + more),
        kinds={
            name: _plain(kind if name in exact else _between(least[name], kind, share))
            for name, kind in kinds.items()
        },
        usable_bytes=usable,
        sources=_SOURCES,
    )


def _share(passing: Any, least: Any, most: Any) -> tuple[Any, Any]:
    """The factor of the least, and how much of what is between the least and the most, is held."""
    factor = np.where(passing < least, passing / np.where(least > 0, least, 1), 1)
    between = np.where(most > least, (passing - least) / np.where(most > least, most - least, 1), 0)
    return factor, np.clip(between, 0, 1)


def _between(least: Any, most: Any, share: tuple[Any, Any]) -> Any:
    factor, between = share
    return factor * (least + between * (most - least))


def _squeezed(known: Any, passing: Any, usable: float) -> Any:
    """What is held of a least demand: one that is a little above the memory is the memory.

    Only what passes can be squeezed, not parameters.
    """
    demand = known + passing
    is_squeezed = (demand > usable) & (demand <= usable * SQUEEZE) & (known <= usable)
    return np.where(is_squeezed, usable, demand)


def _plain(figure: Any) -> Any:
    """A number in place of an array without dimensions."""
    array = np.asarray(figure, dtype=float)
    return float(array) if array.ndim == 0 else array
