"""The shape of a transformer, and what follows from it: parameters and operations."""

from dataclasses import dataclass
from functools import lru_cache

STATE_BYTES = 4
"""Linear attention keeps its state in float32 (vllm, gated delta rule)."""


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

    @property
    def shared_width(self) -> int:
        """The inner width of all shared experts together."""
        return self.shared * (self.shared_hidden or self.hidden)


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
class LinearAttention:
    """Attention with a state in place of a cache (Gated DeltaNet, arXiv 2412.06464; Kimi's, too).

    Every value head keeps a matrix of `key_dim` x `value_dim`. Queries, keys and values pass a
    convolution over `convolution_tokens`. `gate_rank` is the rank of the two low-rank gates; 0 is
    one full gate as wide as the values.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    convolution_tokens: int = 4
    gate_rank: int = 0

    @property
    def keys_width(self) -> int:
        """Numbers in the keys of one token."""
        return self.key_heads * self.key_dim

    @property
    def values_width(self) -> int:
        """Numbers in the values of one token."""
        return self.value_heads * self.value_dim

    @property
    def state(self) -> int:
        """Numbers that one layer keeps for one sequence: its matrices, and what is convolved."""
        convolved = 2 * self.keys_width + self.values_width
        matrices = self.value_heads * self.key_dim * self.value_dim
        return matrices + self.convolution_tokens * convolved


@dataclass(frozen=True, slots=True)
class Attention:
    """Which kinds of attention the layers have; layers that are not named attend to all tokens.

    `window_layers` see the last `window_tokens` only. `linear_layers` keep the state of `linear` in
    place of a cache that grows. Where the layers that attend to all tokens have other heads than
    those with a window (Gemma 4), `full_head_dim` and `full_kv_heads` are theirs, and 0 is the
    model's. `cacheless_layers` read keys and values of a layer below.
    """

    window_tokens: int = 0
    window_layers: int = 0
    linear_layers: int = 0
    linear: LinearAttention | None = None
    latent: LatentAttention | None = None
    full_head_dim: int = 0
    full_kv_heads: int = 0
    full_keys_are_values: bool = False
    """Layers that attend to all tokens have one matrix for keys and values."""
    has_output_gate: bool = False
    """What attention gives is multiplied by a gate as wide as the queries."""
    cacheless_layers: int = 0

    @property
    def linear_state(self) -> int:
        """Numbers that one linear layer keeps for one sequence."""
        return self.linear.state if self.linear else 0


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
    position_tokens: int = 0
    """Positions that have a learned embedding."""
    layer_embedding: int = 0
    """Width of the embedding that every layer has of its own (Gemma 3n and 4); looked up only."""
    wide_mlp_layers: int = 0
    """Layers whose MLP is twice as wide."""
    mtp_layers: int = 0
    """Layers that predict a further token (DeepSeek-V3, arXiv 2412.19437), beside `layers`."""

    @property
    def expert_layers(self) -> int:
        """Layers with experts."""
        return self.layers - self.experts.dense_layers if self.experts else 0

    @property
    def dense_layers(self) -> int:
        """Layers with one MLP for all tokens."""
        return self.layers - self.expert_layers

    @property
    def full_layers(self) -> int:
        """Layers that attend to all tokens."""
        return self.layers - self.attention.window_layers - self.attention.linear_layers

    @property
    def head_dims(self) -> tuple[int, int]:
        """Numbers of a head's key and of its value; `full_head_dim` may differ."""
        if latent := self.attention.latent:
            return latent.nope_dim + latent.rope_dim, latent.value_dim
        return self.head_dim, self.head_dim

    @property
    def full_head_dim(self) -> int:
        """Numbers of a head's key in layers that attend to all tokens, without a latent."""
        return self.attention.full_head_dim or self.head_dim

    @property
    def full_kv_heads(self) -> int:
        """Heads of keys in layers that attend to all tokens."""
        return self.attention.full_kv_heads or self.kv_heads


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """Parameters by kind; norms and biases, below a hundredth of all, are left out."""

    embedding: int
    """Input and output matrix, one where they are tied; positions, and embeddings of layers."""
    attention: int
    mlp: int
    experts: int
    """All routed experts and their routers."""
    shared_experts: int
    active_experts: int
    """The part of `experts` that one token goes through."""
    mtp: int = 0
    """The layers that predict a further token."""

    @property
    def total(self) -> int:
        """All that the model stores."""
        layers = self.attention + self.mlp + self.experts + self.shared_experts
        return self.embedding + layers + self.mtp

    @property
    def active(self) -> int:
        """What one token goes through; an embedding that is only looked up counts too."""
        return self.total - self.experts + self.active_experts - self.mtp


@lru_cache(maxsize=256)
def count_parameters(model: Transformer) -> ParameterCount:
    """The parameters of a transformer by kind."""
    expert, shared, router = _expert_parameters(model)
    experts = model.experts or Experts(0, 0, 0)
    mlp_layers = model.dense_layers + model.wide_mlp_layers
    return ParameterCount(
        embedding=_embedding_parameters(model),
        attention=_attention_parameters(model),
        mlp=mlp_layers * model.mlp_matrices * model.hidden * model.mlp_hidden,
        experts=model.expert_layers * (experts.count * expert + router),
        shared_experts=model.expert_layers * experts.shared * shared,
        active_experts=model.expert_layers * (experts.per_token * expert + router),
        mtp=model.mtp_layers * _mtp_parameters(model, expert, shared, router),
    )


def attention_parameters(model: Transformer) -> int:
    """The projections of one layer with a window, or of any layer where all are alike."""
    latent = model.attention.latent
    if latent is not None:
        return _latent_parameters(model, latent)
    gates = model.heads if model.attention.has_output_gate else 0
    return model.hidden * model.head_dim * (2 * (model.heads + model.kv_heads) + gates)


def full_attention_parameters(model: Transformer) -> int:
    """The projections of one layer that attends to all tokens."""
    attention = model.attention
    if attention.latent or not attention.full_head_dim:
        return attention_parameters(model)
    kv_heads = (1 if attention.full_keys_are_values else 2) * model.full_kv_heads
    return model.hidden * model.full_head_dim * (2 * model.heads + kv_heads)


def linear_attention_parameters(model: Transformer) -> int:
    """The projections of one layer with a state; 0 where the model has none."""
    linear = model.attention.linear
    if linear is None:
        return 0
    keys, values = linear.keys_width, linear.values_width
    gates = linear.gate_rank * (2 * model.hidden + keys + values) or model.hidden * values
    decays = 2 * linear.value_heads * model.hidden
    return model.hidden * (2 * keys + 2 * values) + gates + decays


def _latent_parameters(model: Transformer, latent: LatentAttention) -> int:
    query_dim = model.heads * (latent.nope_dim + latent.rope_dim)
    queries = (
        latent.query_rank * (model.hidden + query_dim)
        if latent.query_rank
        else model.hidden * query_dim
    )
    keys = model.hidden * (latent.kv_rank + latent.rope_dim)
    expanded = latent.kv_rank * model.heads * (latent.nope_dim + latent.value_dim)
    return queries + keys + expanded + model.heads * latent.value_dim * model.hidden


def _attention_parameters(model: Transformer) -> int:
    """Of all layers; those that read the keys of a layer below have no matrices for them."""
    attention = model.attention
    unused = 2 * model.hidden * model.head_dim * model.kv_heads
    return (
        attention.window_layers * attention_parameters(model)
        + model.full_layers * full_attention_parameters(model)
        + attention.linear_layers * linear_attention_parameters(model)
        - attention.cacheless_layers * unused
    )


def _embedding_parameters(model: Transformer) -> int:
    """Tokens and positions, and with embeddings of layers the projections that mix them in."""
    matrices = model.vocab * (1 if model.is_tied else 2) + model.position_tokens
    own = model.layer_embedding * model.layers
    return matrices * model.hidden + own * (model.vocab + 3 * model.hidden)


def _mtp_parameters(model: Transformer, expert: int, shared: int, router: int) -> int:
    """One layer, and the matrix that joins what it predicts from: twice the width to one."""
    joined = 2 * model.hidden * model.hidden + full_attention_parameters(model)
    if model.experts is None:
        return joined + model.mlp_matrices * model.hidden * model.mlp_hidden
    return joined + model.experts.count * expert + model.experts.shared * shared + router


def _expert_parameters(model: Transformer) -> tuple[int, int, int]:
    """Parameters of a routed expert, of a shared one, and of a layer's router."""
    if model.experts is None:
        return 0, 0, 0
    width = model.mlp_matrices * model.hidden
    shared_hidden = model.experts.shared_hidden or model.experts.hidden
    return width * model.experts.hidden, width * shared_hidden, model.hidden * model.experts.count
