"""What one token costs in a transformer's layers: matrices, attention, bytes that move in HBM.

Operations of a forward pass; a multiply-add is two. PaLM (arXiv 2204.02311, appendix B) counts the
same: two a parameter, and the products of attention.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tpuctl.perfmodel.chip.numeric import Figure
from tpuctl.perfmodel.workload.transformer import Transformer

FLASH_BLOCK_TOKENS = 512
"""A flash kernel works in blocks: those on the diagonal are worked whole."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """`count` matrices of a model, [inputs, outputs], that every token is multiplied with.

    `cut` says which side tensor parallelism cuts: `outputs`, `inputs`, or `none`. Of `experts`
    there is one for each expert, and a token goes through `per_token`.
    """

    count: float
    inputs: int
    outputs: int
    cut: str = "outputs"
    experts: int = 0
    per_token: int = 1


def dense_matrices(model: Transformer) -> Iterator[Matrix]:
    """The matrices of all layers that every token goes through."""
    yield from _attention_matrices(model)
    gates = model.mlp_matrices - 1
    yield Matrix(gates * model.dense_layers, model.hidden, model.mlp_hidden)
    yield Matrix(model.dense_layers, model.mlp_hidden, model.hidden, "inputs")
    if model.experts and model.experts.shared:
        width = model.experts.shared * (model.experts.shared_hidden or model.experts.hidden)
        yield Matrix(gates * model.expert_layers, model.hidden, width)
        yield Matrix(model.expert_layers, width, model.hidden, "inputs")


def expert_matrices(model: Transformer) -> Iterator[Matrix]:
    """The matrices of routed experts."""
    if experts := model.experts:
        gates, routed = model.mlp_matrices - 1, (experts.count, experts.per_token)
        layers = model.expert_layers
        yield Matrix(gates * layers, model.hidden, experts.hidden, "outputs", *routed)
        yield Matrix(layers, experts.hidden, model.hidden, "inputs", *routed)


def attention_operations(model: Transformer, tokens: Figure) -> Figure:
    """Operations a token of the products of queries, keys and values, all layers, one pass.

    `tokens` is the length of a sequence. A causal kernel leaves out the blocks after the diagonal:
    about half.
    """
    kinds = model.attention
    full_layers = model.layers - kinds.window_layers - kinds.linear_layers
    seen = full_layers * _seen_tokens(model, tokens, tokens)
    if kinds.window_layers:
        seen = seen + kinds.window_layers * _seen_tokens(model, tokens, kinds.window_tokens)
    linear = 8.0 * kinds.linear_layers * kinds.linear_state
    return 2 * seen * model.heads * sum(head_dims(model)) + linear


def head_dims(model: Transformer) -> tuple[int, int]:
    """Numbers of a head's key and of its value."""
    if latent := model.attention.latent:
        return latent.nope_dim + latent.rope_dim, latent.value_dim
    return model.head_dim, model.head_dim


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


def _attention_matrices(model: Transformer) -> Iterator[Matrix]:
    layers, hidden = model.layers, model.hidden
    latent = model.attention.latent
    if latent is None:
        yield Matrix(layers, hidden, model.head_dim * model.heads)
        yield Matrix(2 * layers, hidden, model.head_dim * model.kv_heads)
        yield Matrix(layers, model.head_dim * model.heads, hidden, "inputs")
        return
    query_dim = model.heads * (latent.nope_dim + latent.rope_dim)
    if latent.query_rank:
        yield Matrix(layers, hidden, latent.query_rank, "none")
        yield Matrix(layers, latent.query_rank, query_dim)
    else:
        yield Matrix(layers, hidden, query_dim)
    yield Matrix(layers, hidden, latent.kv_rank + latent.rope_dim, "none")
    yield Matrix(layers, latent.kv_rank, model.heads * (latent.nope_dim + latent.value_dim))
    yield Matrix(layers, model.heads * latent.value_dim, hidden, "inputs")
