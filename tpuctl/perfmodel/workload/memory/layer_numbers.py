"""How many numbers a layer of a transformer holds for one token, kept or while it is computed."""

from dataclasses import dataclass
from functools import lru_cache

from tpuctl.perfmodel.workload.transformer import Experts, Transformer, count_parameters

_NO_EXPERTS = Experts(count=0, per_token=0, hidden=0)


@dataclass(frozen=True, slots=True)
class LayerNumbers:
    """Numbers of one token in one layer, all devices that share it together.

    `dense` are what the residual stream, attention and the MLPs hold while the layer is computed.
    `dispatched` are the tokens that go to experts and come back: a copy for each expert of a token.
    """

    dense: float
    dispatched: float


@lru_cache(maxsize=256)
def working_numbers(model: Transformer) -> LayerNumbers:
    """What one layer holds while its backward pass is computed; of a mixture, one with experts."""
    experts = model.experts or _NO_EXPERTS
    mlp = _mlp_width(model) * model.mlp_matrices
    return LayerNumbers(
        dense=4 * model.hidden + _attention_width(model) + mlp,
        dispatched=2 * experts.per_token * model.hidden,
    )


@lru_cache(maxsize=256)
def saved_numbers(model: Transformer, remat: str) -> float:
    """What the forward pass keeps of one token for the backward pass, on the mean over the layers.

    `full`: the input of each layer; `offload`: none, the inputs are in the host's memory;
    `minimal`: the input and the results of the products (MaxText's policy `minimal`, JAX's
    `dots_saveable`); `none`: what lies between the products, too. Flash attention never keeps the
    scores (arXiv 2205.14135).
    """
    if remat == "offload":
        return 0
    if remat == "full":
        return model.hidden
    products = 2 * model.hidden + _attention_width(model) + _mlp_results(model)
    return products if remat == "minimal" else products + _between_products(model)


@lru_cache(maxsize=256)
def gathered_parameters(model: Transformer) -> tuple[float, float]:
    """Parameters of the largest layer: those outside its experts, and those of its experts."""
    count = count_parameters(model)
    dense = count.attention / model.layers
    if model.experts is None:
        return dense + count.mlp / model.layers, 0
    shared = count.shared_experts / model.expert_layers
    return dense + shared, count.experts / model.expert_layers


def _attention_width(model: Transformer) -> float:
    """Queries, keys, values and what attention gives, on the mean over the layers."""
    attention = model.attention
    full = model.full_layers * _full_width(model)
    window = attention.window_layers * 2 * model.head_dim * (model.heads + model.kv_heads)
    linear = attention.linear
    stateful = 2 * (linear.keys_width + linear.values_width) if linear else 0
    return (full + window + attention.linear_layers * stateful) / model.layers


def _full_width(model: Transformer) -> float:
    latent = model.attention.latent
    if latent is not None:
        return model.heads * 2 * sum(model.head_dims) + latent.query_rank + latent.kv_rank
    return 2 * model.full_head_dim * (model.heads + model.full_kv_heads)


def _mlp_width(model: Transformer) -> float:
    """The inner width that a token goes through: of a mixture, all its experts together."""
    experts = model.experts
    if experts is None:
        return model.mlp_hidden * (1 + model.wide_mlp_layers / model.layers)
    routed = experts.per_token * experts.hidden + experts.shared_width
    share = model.expert_layers / model.layers
    return share * routed + (1 - share) * model.mlp_hidden


def _mlp_results(model: Transformer) -> float:
    """The results of the products of the MLPs; every expert of a token has a result of its own."""
    experts = model.experts or _NO_EXPERTS
    outputs = model.hidden * (1 + experts.per_token * model.expert_layers / model.layers)
    return (model.mlp_matrices - 1) * _mlp_width(model) + outputs


def _between_products(model: Transformer) -> float:
    """Normed inputs, gated values and the tokens that go to experts."""
    experts = model.experts or _NO_EXPERTS
    sent = experts.per_token * model.hidden * model.expert_layers / model.layers
    return 2 * model.hidden + _mlp_width(model) + sent
