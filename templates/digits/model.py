"""The trained network for live predictions: `python3 -m tpuctl.serving model.py`."""

import network

from localsim.core import Mesh

INPUTS = {"pixels": ("FP32", [-1, 64])}


def load(checkpoint):
    """The first chip of this worker, and the weights of the newest good checkpoint on it."""
    weights = checkpoint.restore().tree["weights"]
    chip, *_ = Mesh.connect().chips
    held = {name: chip.put(weights[name], "bf16") for name in ("w1", "w2")}
    return chip, {**weights, **held}


def predict(model, batch):
    """The likeliest digit of each row of pixels [n, 64], and the logits [n, 10]."""
    chip, weights = model
    _, logits = network.forward(chip, weights, batch["pixels"])
    logits = logits + weights["b2"]
    return {"digit": logits.argmax(axis=1), "logits": logits}
