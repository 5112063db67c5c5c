"""The shape of a transformer, and what follows from it: parameters and operations."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Experts:
    """The experts of a mixture; every token goes to `per_token` of `count`, and all `shared`."""

    count: int
    per_token: int
    hidden: int
    """The inner width of one expert."""
    shared: int = 0
    shared_hidden: int = 0
    """The inner width of one shared expert; 0 is that of the others."""
    dense_layers: int = 0
    """Layers that have one dense MLP in place of the experts."""


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values share a latent.

    `query_rank` is 0 where queries are not compressed. The cache holds `kv_rank + rope_dim` numbers
    a token and layer.
    """

    query_rank: int
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int


@dataclass(frozen=True, slots=True)
class Attention:
    """Which kinds of attention the layers have; layers that are not named attend to all tokens.

    `window_layers` see the last `window_tokens` only. `linear_layers` keep a state of
    `linear_state` numbers a sequence in place of a cache that grows.
    """

    window_tokens: int = 0
    window_layers: int = 0
    linear_layers: int = 0
    linear_state: int = 0
    latent: LatentAttention | None = None


@dataclass(frozen=True, slots=True)
class Transformer:
    """A decoder, or an encoder of the same blocks.

    `mlp_matrices` is 3 where the MLP has a gate (SwiGLU, GeGLU), else 2. `is_tied`: the embedding
    is also the output matrix.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp_hidden: int
    vocab: int
    mlp_matrices: int = 3
    is_tied: bool = False
    is_causal: bool = True
    experts: Experts | None = None
    attention: Attention = Attention()

    @property
    def expert_layers(self) -> int:
        """Layers with experts."""
        return self.layers - self.experts.dense_layers if self.experts else 0

    @property
    def dense_layers(self) -> int:
        """Layers with one MLP for all tokens."""
        return self.layers - self.expert_layers


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """Parameters by kind; norms and biases, below a thousandth of any of these, are left out."""

    embedding: int
    """Input and output matrix; one where they are tied."""
    attention: int
    mlp: int
    experts: int
    """All routed experts and their routers."""
    shared_experts: int
    active_experts: int
    """The part of `experts` that one token goes through."""

    @property
    def total(self) -> int:
        """All that the model stores."""
        return self.embedding + self.attention + self.mlp + self.experts + self.shared_experts

    @property
    def active(self) -> int:
        """What one token goes through; an embedding that is only looked up counts too."""
        return self.total - self.experts + self.active_experts


def count_parameters(model: Transformer) -> ParameterCount:
    """The parameters of a transformer by kind."""
    expert, shared, router = _expert_parameters(model)
    experts = model.experts or Experts(0, 0, 0)
    return ParameterCount(
        embedding=model.vocab * model.hidden * (1 if model.is_tied else 2),
        attention=model.layers * attention_parameters(model),
        mlp=model.dense_layers * model.mlp_matrices * model.hidden * model.mlp_hidden,
        experts=model.expert_layers * (experts.count * expert + router),
        shared_experts=model.expert_layers * experts.shared * shared,
        active_experts=model.expert_layers * (experts.per_token * expert + router),
    )


def attention_parameters(model: Transformer) -> int:
    """The projections of one layer: queries, keys, values and the output."""
    latent = model.attention.latent
    if latent is None:
        return model.hidden * model.head_dim * 2 * (model.heads + model.kv_heads)
    query_dim = model.heads * (latent.nope_dim + latent.rope_dim)
    queries = (
        latent.query_rank * (model.hidden + query_dim)
        if latent.query_rank
        else model.hidden * query_dim
    )
    keys = model.hidden * (latent.kv_rank + latent.rope_dim)
    expanded = latent.kv_rank * model.heads * (latent.nope_dim + latent.value_dim)
    return queries + keys + expanded + model.heads * latent.value_dim * model.hidden


def _expert_parameters(model: Transformer) -> tuple[int, int, int]:
    """Parameters of a routed expert, of a shared one, and of a layer's router."""
    if model.experts is None:
        return 0, 0, 0
    width = model.mlp_matrices * model.hidden
    shared_hidden = model.experts.shared_hidden or model.experts.hidden
    return width * model.experts.hidden, width * shared_hidden, model.hidden * model.experts.count
