"""Which digit each image shows: the two functions of batch.yaml and of serve.yaml.

Every worker predicts by itself, on its own chips.
"""

import network
import numpy as np

from localsim.core import Mesh

INPUTS = {"pixels": ("FP32", [-1, 64])}
"""What a request has: the pixels of each row, 0 to 16."""
PIXELS = [f"pixel_{row}_{column}" for row in range(8) for column in range(8)]


def load(checkpoint):
    """Each chip of this worker with the weights of the checkpoint."""
    weights = checkpoint.restore().tree["weights"]
    return [(chip, on_chip(chip, weights)) for chip in Mesh.connect().chips]


def on_chip(chip, weights):
    """The weights, those of the products in the chip's memory."""
    return {**weights, **{name: chip.put(weights[name], "bf16") for name in ("w1", "w2")}}


def predict(model, batch):
    """The likeliest digit of each row, and its probability; each chip takes its part of them.

    The pixels, 0 to 16, are 64 columns of a csv file, or the array `pixels` [n, 64] of an npz file
    or of a request.
    """
    if "pixels" in batch:
        pixels = batch["pixels"].astype(np.float32) / 16
    else:
        pixels = np.stack([batch[name] for name in PIXELS], axis=1).astype(np.float32) / 16
    if not np.isfinite(pixels).all():
        raise ValueError("a pixel is not a number")
    shares = np.array_split(pixels, len(model))
    found = [log_odds(*each, share) for each, share in zip(model, shares, strict=True)]
    found = np.concatenate(found)
    return {
        "digit": found.argmax(axis=1),
        "probability": np.exp(found.max(axis=1)).astype(np.float32),
    }


def log_odds(chip, weights, pixels):
    """The logarithm of each digit's probability, [n, 10]."""
    if not len(pixels):
        return np.empty((0, 10), np.float32)
    _, logits = network.forward(chip, weights, pixels)
    return network.log_softmax(logits, weights["b2"])
