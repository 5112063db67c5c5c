"""Two layers on one chip, which may hold a part of the hidden one only; gradients by hand.

64 pixels, a hidden layer, ten digits. The chip multiplies bfloat16 and adds float32; activations
are kept as bfloat16, rounded once; weights, logits and gradients are float32.
"""

import numpy as np


def initial_weights(hidden, seed):
    """Float32 weights [64, hidden] and [hidden, 10] with He initialisation, and zero biases."""
    random = np.random.default_rng([seed, hidden])
    return {
        "w1": (random.standard_normal((64, hidden)) * np.sqrt(2 / 64)).astype(np.float32),
        "b1": np.zeros(hidden, np.float32),
        "w2": (random.standard_normal((hidden, 10)) * np.sqrt(1 / hidden)).astype(np.float32),
        "b2": np.zeros(10, np.float32),
    }


def forward(chip, weights, pixels):
    """The hidden layer [n, hidden], and its share of the logits [n, 10], without b2."""
    hidden = chip.matmul(pixels, weights["w1"])
    hidden = chip.elementwise(relu, hidden, weights["b1"], dtype="bf16")
    return hidden, chip.matmul(hidden, weights["w2"])


def backward(chip, weights, pixels, digits, hidden, logits):
    """The cross-entropy and its gradient by each weight, summed over n examples.

    `pixels` is [n, 64], `digits` [n], `hidden` [n, hidden], `logits` [n, 10].
    """
    log_odds = chip.elementwise(log_softmax, logits, weights["b2"])
    loss = -log_odds[np.arange(len(digits)), digits].sum()
    truth = np.eye(10, dtype=np.float32)[digits]
    error = chip.elementwise(lambda x, t: np.exp(x) - t, log_odds, truth, dtype="bf16")
    back = chip.matmul(error, weights["w2"].T)
    back = chip.elementwise(where_positive, back, hidden, dtype="bf16")
    return loss, {
        "w1": chip.matmul(pixels.T, back),
        "b1": chip.reduce("sum", back, 0),
        "w2": chip.matmul(hidden.T, error),
        "b2": chip.reduce("sum", error, 0),
    }


def relu(x, bias):
    """The positive part of x + bias."""
    x = x + bias
    return np.maximum(x, 0, out=x)


def where_positive(slopes, hidden):
    """The slopes where `hidden` is positive, else 0: the gradient of relu."""
    return slopes * (hidden > 0)


def log_softmax(logits, bias):
    """The logarithm of each digit's probability, [n, 10]."""
    logits = logits + bias
    logits -= logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
