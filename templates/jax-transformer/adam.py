"""Adam with a linear warm-up, on trees of arrays."""

import jax
import jax.numpy as jnp

DECAY_MEAN, DECAY_VARIANCE = 0.9, 0.98
WARM_UP = 20
TINY = 1e-8


def initial(weights):
    """The state before the first step: the weights, and two averages of slopes that are zero."""
    nothing = jax.tree.map(lambda weight: weight * 0, weights)
    return {"weights": weights, "mean": nothing, "variance": nothing}


def update(state, slopes, step, rate):
    """The state after step `step` (1, 2, ...) with the learning rate `rate`.

    Kingma and Ba, Adam: a method for stochastic optimization, ICLR 2015, algorithm 1, after a
    linear warm-up of the rate.
    """
    mean = _averaged(state["mean"], slopes, DECAY_MEAN)
    squares = jax.tree.map(jnp.square, slopes)
    variance = _averaged(state["variance"], squares, DECAY_VARIANCE)
    rate = rate * jnp.minimum(1, step / WARM_UP) / (1 - DECAY_MEAN**step)
    unbiased = 1 - DECAY_VARIANCE**step
    weights = jax.tree.map(
        lambda weight, m, v: weight - rate * m / (jnp.sqrt(v / unbiased) + TINY),
        state["weights"],
        mean,
        variance,
    )
    return {"weights": weights, "mean": mean, "variance": variance}


def _averaged(olds, news, decay):
    return jax.tree.map(lambda old, new: decay * old + (1 - decay) * new, olds, news)
