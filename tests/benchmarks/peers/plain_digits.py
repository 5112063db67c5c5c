"""The digits template's network and training in plain numpy: one processor, float32, no chip."""

import numpy as np

MOMENTUM = 0.9


def train_step(weights, momentum, pixels, digits, learning_rate):
    """One update, in place; the mean loss."""
    loss, slopes = gradients(weights, pixels, digits)
    for name, slope in slopes.items():
        momentum[name] *= MOMENTUM
        momentum[name] -= np.float32(learning_rate / len(digits)) * slope
        weights[name] += momentum[name]
    return loss / len(digits)


def gradients(weights, pixels, digits):
    hidden = np.maximum(pixels @ weights["w1"] + weights["b1"], 0)
    logits = hidden @ weights["w2"] + weights["b2"]
    logits -= logits.max(axis=1, keepdims=True)
    log_odds = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    error = np.exp(log_odds) - np.eye(10, dtype=np.float32)[digits]
    back = error @ weights["w2"].T * (hidden > 0)
    return -log_odds[np.arange(len(digits)), digits].sum(), {
        "w1": pixels.T @ back,
        "b1": back.sum(axis=0),
        "w2": hidden.T @ error,
        "b2": error.sum(axis=0),
    }
