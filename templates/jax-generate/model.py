"""A decoder of a few layers; which axis of each weight is split over the devices of a model."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

ROTATION = 10_000.0
SPLIT = {
    "embedding": PartitionSpec(),
    "last_norm": PartitionSpec(),
    "layers": {
        "attention_norm": PartitionSpec(),
        "query_key_value": PartitionSpec(None, None, None, "model", None),
        "attention_out": PartitionSpec(None, "model", None, None),
        "feed_norm": PartitionSpec(),
        "feed_up": PartitionSpec(None, None, "model"),
        "feed_down": PartitionSpec(None, "model", None),
    },
}
"""Heads and hidden units are split; one sum over `model` ends each half of a layer."""


@dataclass(frozen=True)
class Size:
    """The size of a model; `heads` must divide `width`."""

    vocabulary: int
    layers: int
    width: int
    heads: int


def initial_weights(size, seed):
    """Float32 normal weights, scaled by the number of inputs; the same on every worker."""
    random = np.random.default_rng(seed)
    deep, wide, head = size.layers, size.width, size.width // size.heads

    def normal(*shape, inputs):
        return (random.standard_normal(shape) / np.sqrt(inputs)).astype(np.float32)

    return {
        # Small, for it is read both ways: no token may begin as its own successor.
        "embedding": normal(size.vocabulary, wide, inputs=16 * wide),
        "last_norm": np.ones(wide, np.float32),
        "layers": {
            "attention_norm": np.ones((deep, wide), np.float32),
            "query_key_value": normal(deep, wide, 3, size.heads, head, inputs=wide),
            "attention_out": normal(deep, size.heads, head, wide, inputs=2 * deep * wide),
            "feed_norm": np.ones((deep, wide), np.float32),
            "feed_up": normal(deep, wide, 4 * wide, inputs=wide),
            "feed_down": normal(deep, 4 * wide, wide, inputs=8 * deep * wide),
        },
    }


def loss(weights, tokens):
    """The mean cross-entropy of each token but the first, in nats; tokens are [batch, length]."""
    odds = jax.nn.log_softmax(logits(weights, tokens[:, :-1]))
    return -jnp.mean(jnp.take_along_axis(odds, tokens[:, 1:, None], axis=2))


def logits(weights, tokens):
    """The score of each token as the next one: [batch, length, vocabulary] for [batch, length]."""
    flow = weights["embedding"][tokens]
    flow, _ = jax.lax.scan(lambda flow, layer: (_layer(layer, flow), None), flow, weights["layers"])
    return _norm(flow, weights["last_norm"]) @ weights["embedding"].T


def _layer(layer, flow):
    flow = flow + _attention(layer, _norm(flow, layer["attention_norm"]))
    hidden = jax.nn.gelu(_norm(flow, layer["feed_norm"]) @ layer["feed_up"])
    return flow + hidden @ layer["feed_down"]


def _attention(layer, flow):
    query, key, value = jnp.einsum("btd,dchk->cbthk", flow, layer["query_key_value"])
    length, head = query.shape[1], query.shape[3]
    scores = jnp.einsum("bqhk,bshk->bhqs", _rotated(query), _rotated(key)) / np.sqrt(head)
    past = jnp.tril(jnp.ones((length, length), bool))
    shares = jax.nn.softmax(jnp.where(past, scores, -jnp.inf))
    mixed = jnp.einsum("bhqs,bshk->bqhk", shares, value)
    return jnp.einsum("bqhk,hkd->bqd", mixed, layer["attention_out"])


def _rotated(vectors):
    """Each pair of numbers turned by an angle that grows with the place: [batch, length, h, k]."""
    length, half = vectors.shape[1], vectors.shape[3] // 2
    angles = np.outer(np.arange(length), ROTATION ** (-np.arange(half) / half))
    sine, cosine = (jnp.float32(f(angles)[:, None]) for f in (np.sin, np.cos))
    left, right = jnp.split(vectors, 2, axis=3)
    return jnp.concatenate([left * cosine - right * sine, right * cosine + left * sine], axis=3)


def _norm(flow, scale):
    return flow * jax.lax.rsqrt(jnp.mean(flow**2, axis=-1, keepdims=True) + 1e-6) * scale
