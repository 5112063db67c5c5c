"""What one token costs in a transformer's layers: matrices, attention, bytes that move in HBM.

Operations of a forward pass; a multiply-add is two. PaLM (arXiv 2204.02311, appendix B) counts the
same: two a parameter, and the products of attention.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tpuctl.perfmodel.chip.numeric import Figure
from tpuctl.perfmodel.workload.transformer import (
    LatentAttention,
    LinearAttention,
    Transformer,
)

LINEAR_OPERATIONS = 8
"""Operations a number of a state and token: decay, update, read, and a chunk's own products."""
FLASH_BLOCK_TOKENS = 1024
"""A flash kernel works in blocks: those on the diagonal are worked whole."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """`count` matrices of a model, [inputs, outputs], that every token is multiplied with.

    `cut` says which side tensor parallelism cuts: `outputs`, `inputs`, or `none`. Of `experts`
    there is one for each expert, and a token goes through `per_token`. What an `is_last` matrix
    gives is needed by no backward pass, so it is never computed again.
    """

    count: float
    inputs: int
    outputs: int
    cut: str = "outputs"
    experts: int = 0
    per_token: int = 1
    is_last: bool = False
    is_attention: bool = False


def dense_matrices(model: Transformer) -> Iterator[Matrix]:
    """The matrices of all layers that every token goes through."""
    for matrix in _attention_matrices(model):
        yield replace(matrix, is_attention=True)
    yield from _mlp_matrices(model, model.dense_layers - model.wide_mlp_layers, model.mlp_hidden)
    yield from _mlp_matrices(model, model.wide_mlp_layers, 2 * model.mlp_hidden)
    if experts := model.experts:
        yield from _mlp_matrices(model, _expert_layers(model), experts.shared_width)
        yield Matrix(_expert_layers(model), model.hidden, experts.count, "none")
    if model.layer_embedding:
        yield Matrix(3 * model.layers, model.hidden, model.layer_embedding)
    if model.mtp_layers:
        yield Matrix(model.mtp_layers, 2 * model.hidden, model.hidden, "none")
        if model.experts is None:
            yield from _mlp_matrices(model, model.mtp_layers, model.mlp_hidden)


def expert_matrices(model: Transformer) -> Iterator[Matrix]:
    """The matrices of routed experts."""
    if experts := model.experts:
        gates, routed = model.mlp_matrices - 1, (experts.count, experts.per_token)
        layers = _expert_layers(model)
        yield Matrix(gates * layers, model.hidden, experts.hidden, "outputs", *routed)
        yield Matrix(layers, experts.hidden, model.hidden, "inputs", *routed)


def attention_operations(model: Transformer, tokens: Figure, mxu_side: int) -> Figure:
    """Operations a token of the products of queries, keys and values, all layers, one pass.

    `tokens` is the length of a sequence. A causal kernel leaves out the blocks after the diagonal:
    about half. A head's numbers are padded to whole sides of an MXU of `mxu_side`; 1 pads nothing.
    """
    kinds = model.attention
    full_layers = model.full_layers + model.mtp_layers
    seen = _seen_tokens(model, tokens, tokens)
    operations = 2 * full_layers * seen * _padded_numbers(model, mxu_side, kinds.full_head_dim)
    if kinds.window_layers:
        seen = _seen_tokens(model, tokens, kinds.window_tokens)
        operations = operations + 2 * kinds.window_layers * seen * _padded_numbers(model, mxu_side)
    if kinds.linear:
        operations = operations + kinds.linear_layers * LINEAR_OPERATIONS * kinds.linear_state
    return operations


def attended_operations(model: Transformer) -> int:
    """Operations that one more token to attend to costs a token, all layers with a softmax."""
    kinds = model.attention
    full_layers = model.full_layers + model.mtp_layers
    full = full_layers * _padded_numbers(model, 1, kinds.full_head_dim)
    return 2 * (full + kinds.window_layers * _padded_numbers(model, 1))


def _padded_numbers(model: Transformer, mxu_side: int, head_dim: int = 0) -> int:
    """Numbers of all heads' keys and values, those of a head padded."""
    dims = (head_dim, head_dim) if head_dim else model.head_dims
    return model.heads * sum(-(-dim // mxu_side) * mxu_side for dim in dims)


def cache_numbers(model: Transformer) -> int:
    """Numbers that one token's keys and values have in one layer."""
    if latent := model.attention.latent:
        return latent.kv_rank + latent.rope_dim
    return 2 * model.kv_heads * model.head_dim


def _seen_tokens(model: Transformer, tokens: Figure, window: Figure) -> Figure:
    """Tokens that one token is compared with, in the mean."""
    window = np.minimum(window, tokens)
    if not model.is_causal:
        return window
    block = np.minimum(FLASH_BLOCK_TOKENS, tokens)
    return np.minimum(window - window**2 / (2 * tokens) + block / 2, tokens)


def _expert_layers(model: Transformer) -> int:
    return model.expert_layers + model.mtp_layers


def _mlp_matrices(model: Transformer, layers: float, width: int) -> Iterator[Matrix]:
    if layers and width:
        yield Matrix((model.mlp_matrices - 1) * layers, model.hidden, width)
        yield Matrix(layers, width, model.hidden, "inputs", is_last=True)


def _attention_matrices(model: Transformer) -> Iterator[Matrix]:
    kinds = model.attention
    if kinds.latent:
        yield from _latent_matrices(model, kinds.latent)
        return
    full_layers = model.full_layers + model.mtp_layers
    full_kv = model.full_kv_heads if kinds.full_head_dim else model.kv_heads
    full_dim = model.full_head_dim
    kv_matrices = 1 if kinds.full_head_dim and kinds.full_keys_are_values else 2
    yield from _head_matrices(model, full_layers, full_dim)
    yield Matrix(full_layers, model.hidden, kv_matrices * full_kv * full_dim)
    yield from _head_matrices(model, kinds.window_layers, model.head_dim)
    own_keys = max(kinds.window_layers - kinds.cacheless_layers, 0)
    yield Matrix(own_keys, model.hidden, 2 * model.kv_heads * model.head_dim)
    if kinds.linear:
        yield from _linear_matrices(model, kinds.linear)


def _head_matrices(model: Transformer, layers: int, head_dim: int) -> Iterator[Matrix]:
    """The matrices of queries and of the output."""
    width = model.heads * head_dim
    yield Matrix(layers, model.hidden, width)
    yield Matrix(layers, width, model.hidden, "inputs")
    if model.attention.has_output_gate and head_dim == model.head_dim:
        yield Matrix(layers, model.hidden, width)


def _linear_matrices(model: Transformer, linear: LinearAttention) -> Iterator[Matrix]:
    layers, hidden = model.attention.linear_layers, model.hidden
    keys, values = linear.keys_width, linear.values_width
    yield Matrix(layers, hidden, 2 * keys + values)
    yield Matrix(layers, values, hidden, "inputs")
    yield Matrix(layers, hidden, 2 * linear.value_heads)
    if linear.gate_rank:
        yield Matrix(2 * layers, hidden, linear.gate_rank, "none")
        yield Matrix(layers, linear.gate_rank, keys + values)
    else:
        yield Matrix(layers, hidden, values)


def _latent_matrices(model: Transformer, latent: LatentAttention) -> Iterator[Matrix]:
    layers = model.full_layers + model.mtp_layers
    hidden = model.hidden
    query_dim = model.heads * (latent.nope_dim + latent.rope_dim)
    if latent.query_rank:
        yield Matrix(layers, hidden, latent.query_rank, "none")
        yield Matrix(layers, latent.query_rank, query_dim)
    else:
        yield Matrix(layers, hidden, query_dim)
    yield Matrix(layers, hidden, latent.kv_rank + latent.rope_dim, "none")
    yield Matrix(layers, latent.kv_rank, model.heads * (latent.nope_dim + latent.value_dim))
    yield Matrix(layers, model.heads * latent.value_dim, hidden, "inputs")
    if model.attention.linear:
        yield from _linear_matrices(model, model.attention.linear)
