"""Two layers: 64 pixels, a hidden layer, ten digits."""

import jax
import jax.numpy as jnp
import numpy as np


def initial_weights(hidden, seed):
    """Float32 weights with He initialisation, the same on every worker."""
    random = np.random.default_rng([seed, hidden])
    return {
        "w1": (random.standard_normal((64, hidden)) * np.sqrt(2 / 64)).astype(np.float32),
        "b1": np.zeros(hidden, np.float32),
        "w2": (random.standard_normal((hidden, 10)) * np.sqrt(1 / hidden)).astype(np.float32),
        "b2": np.zeros(10, np.float32),
    }


def logits(weights, pixels):
    """The score [n, 10] of each digit for images [n, 64]."""
    hidden = jax.nn.relu(pixels @ weights["w1"] + weights["b1"])
    return hidden @ weights["w2"] + weights["b2"]


def loss(weights, pixels, digits):
    """The mean cross-entropy of n images, in nats."""
    odds = jax.nn.log_softmax(logits(weights, pixels))
    return -jnp.mean(jnp.take_along_axis(odds, digits[:, None], axis=1))


def accuracy(weights, pixels, digits):
    """The share of images whose likeliest digit is the right one."""
    return jnp.mean(jnp.argmax(logits(weights, pixels), axis=1) == digits)
