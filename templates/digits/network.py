"""Two layers on one chip: 64 pixels, a hidden layer, ten digits. Gradients by hand."""

import numpy as np


def initial_weights(hidden, seed):
    """He initialisation; float32 master weights."""
    random = np.random.default_rng([seed, hidden])
    return {
        "w1": (random.standard_normal((64, hidden)) * np.sqrt(2 / 64)).astype(np.float32),
        "b1": np.zeros(hidden, np.float32),
        "w2": (random.standard_normal((hidden, 10)) * np.sqrt(1 / hidden)).astype(np.float32),
        "b2": np.zeros(10, np.float32),
    }


def forward(chip, weights, pixels):
    """The hidden layer and the probability of each digit."""
    hidden = chip.matmul(pixels, weights["w1"])
    hidden = chip.elementwise(lambda x, b: np.maximum(x + b, 0), hidden, weights["b1"])
    logits = chip.matmul(hidden, weights["w2"])
    return hidden, chip.elementwise(softmax, logits, weights["b2"])


def softmax(logits, bias):
    """Probabilities of each row."""
    logits = logits + bias
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def gradients(chip, weights, pixels, digits):
    """Sums over these examples: the cross-entropy, and its gradient by each weight."""
    hidden, odds = forward(chip, weights, pixels)
    rows = np.arange(len(digits))
    loss = -np.log(odds[rows, digits]).sum(dtype=np.float32)
    error = odds.copy()
    error[rows, digits] -= 1
    back = chip.matmul(error, weights["w2"].T)
    back = chip.elementwise(lambda x, h: x * (h > 0), back, hidden)
    return loss, {
        "w1": chip.matmul(pixels.T, back),
        "b1": back.sum(axis=0),
        "w2": chip.matmul(hidden.T, error),
        "b2": error.sum(axis=0),
    }
