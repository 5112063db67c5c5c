"""Text from a decoder, a token at a time, with the keys and values of what was read kept.

Every array has a fixed shape, so that few programs are compiled: one for each size that a prompt is
padded to, and one that adds a token to all requests at once. Each request has a row of its own.
"""

from functools import partial

import jax
import jax.numpy as jnp
import model
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

SMALLEST_BUCKET = 16
ON_HEADS = PartitionSpec(None, None, None, "model", None)


def buckets(length):
    """The sizes that prompts are padded to: 16, 32, 64, ... and `length`."""
    sizes = [SMALLEST_BUCKET << number for number in range(length.bit_length())]
    return [*(size for size in sizes if size < length), length]


def forward(weights, cache, tokens, places):
    """The logits of new tokens, and the cache with their keys and values.

    Tokens and places are [rows, new]; the cache has keys and values, each [layers, rows, length,
    heads, head]. A token sees what the cache has at its own place and before it.
    """
    flow = weights["embedding"][tokens]

    def run_layer(flow, layer_and_cache):
        layer, keys, values = layer_and_cache
        mixed, keys, values = _attention(layer, flow, keys, values, places)
        flow = flow + mixed
        hidden = jax.nn.gelu(_norm(flow, layer["feed_norm"]) @ layer["feed_up"])
        return flow + hidden @ layer["feed_down"], (keys, values)

    flow, cache = jax.lax.scan(run_layer, flow, (weights["layers"], *cache))
    return _norm(flow, weights["last_norm"]) @ weights["embedding"].T, cache


def _attention(layer, flow, keys, values, places):
    flow = _norm(flow, layer["attention_norm"])
    query, key, value = jnp.einsum("btd,dchk->cbthk", flow, layer["query_key_value"])
    rows = jnp.arange(len(places))[:, None]
    keys = keys.at[rows, places].set(_rotated(key, places))
    values = values.at[rows, places].set(value)
    head = query.shape[3]
    scores = jnp.einsum("bqhk,bshk->bhqs", _rotated(query, places), keys) / np.sqrt(head)
    is_past = jnp.arange(keys.shape[1]) <= places[:, None, :, None]
    shares = jax.nn.softmax(jnp.where(is_past, scores, -jnp.inf))
    mixed = jnp.einsum("bhqs,bshk->bqhk", shares, values)
    return jnp.einsum("bqhk,hkd->bqd", mixed, layer["attention_out"]), keys, values


def _rotated(vectors, places):
    """Each pair of numbers turned by an angle that grows with the place: [rows, new, h, k]."""
    half = vectors.shape[3] // 2
    rates = jnp.asarray(model.ROTATION ** (-np.arange(half) / half), jnp.float32)
    angles = (places[:, :, None] * rates)[:, :, None]
    sine, cosine = jnp.sin(angles), jnp.cos(angles)
    left, right = jnp.split(vectors, 2, axis=3)
    return jnp.concatenate([left * cosine - right * sine, right * cosine + left * sine], axis=3)


def _norm(flow, scale):
    return flow * jax.lax.rsqrt(jnp.mean(flow**2, axis=-1, keepdims=True) + 1e-6) * scale


def _draw(logits, chance, place):
    """The likeliest token; with a temperature above 0, one drawn by the seed and place alone."""
    temperature, seed = chance
    noise = jax.random.gumbel(jax.random.fold_in(jax.random.key(seed), place), logits.shape)
    return jnp.argmax(logits + temperature * noise)


@partial(jax.jit, donate_argnums=1)
def _prefill(weights, cache, row, tokens, size, chance):
    """Read a prompt of `size` tokens, padded, into a row; the cache and the next token."""
    own = [jax.lax.dynamic_slice_in_dim(each, row, 1, axis=1) for each in cache]
    places = jnp.arange(len(tokens))
    logits, own = forward(weights, own, tokens[None], places[None])
    cache = [
        jax.lax.dynamic_update_slice_in_dim(each, new, row, axis=1)
        for each, new in zip(cache, own, strict=True)
    ]
    return cache, _draw(logits[0, size - 1], chance, size)


@partial(jax.jit, donate_argnums=1)
def _decode(weights, cache, tokens, places, chances):
    """Add a token to every row; the cache and the next token of each."""
    logits, cache = forward(weights, cache, tokens[:, None], places[:, None])
    return list(cache), jax.vmap(_draw)(logits[:, 0], chances, places + 1)


class Generator:
    """Requests in rows: each of them begins with a prompt and gets a token at every step."""

    def __init__(self, weights, rows, length):
        """Split the model over the devices of this worker, by heads, as in training."""
        deep, _, _, heads, head = weights["layers"]["query_key_value"].shape
        columns = np.gcd(heads, jax.local_device_count())
        devices = jax.local_devices()[:columns]
        mesh = jax.make_mesh(
            (1, columns), ("batch", "model"), axis_types=(AxisType.Auto,) * 2, devices=devices
        )
        layout = jax.tree.map(lambda split: NamedSharding(mesh, split), model.SPLIT)
        self.weights = jax.device_put(weights, layout)
        empty = np.zeros((deep, rows, length, heads, head), np.float32)
        # Two arrays: each of them is given away when it is used.
        on_heads = NamedSharding(mesh, ON_HEADS)
        self.cache = [jax.device_put(empty.copy(), on_heads) for _ in range(2)]
        self.length, self.rows, self.buckets = length, rows, buckets(length)
        self.tokens = np.zeros(rows, np.int32)
        self.places = np.zeros(rows, np.int32)
        self.temperatures = np.zeros(rows, np.float32)
        self.seeds = np.zeros(rows, np.uint32)

    def begin(self, row, prompt, temperature=0.0, seed=0):
        """Read a prompt, a list of at most `length` tokens, into a row; returns the next token."""
        size = len(prompt)
        padded = np.zeros(next(each for each in self.buckets if each >= size), np.int32)
        padded[:size] = prompt
        self.temperatures[row], self.seeds[row] = temperature, seed
        chance = (self.temperatures[row], self.seeds[row])
        self.cache, token = _prefill(self.weights, self.cache, row, padded, size, chance)
        self.tokens[row], self.places[row] = token, size
        return int(token)

    def step(self):
        """Write the newest token of every row at its place; returns the next one of each."""
        chances = (self.temperatures, self.seeds)
        self.cache, tokens = _decode(self.weights, self.cache, self.tokens, self.places, chances)
        self.tokens = np.array(tokens)
        # A row that nobody uses stays at its last place.
        self.places = np.minimum(self.places + 1, self.length - 1)
        return self.tokens

    def warm_up(self):
        """Compile every program before the first request."""
        for size in self.buckets:
            self.begin(0, [0] * size)
        self.step()
