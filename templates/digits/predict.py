"""Read the digits that were held back, in batches on all chips, with the newest checkpoint."""

import json
import os
import sys

import digits
import network
import numpy as np

from localsim.core import Mesh
from tpuctl.checkpoint import restore
from tpuctl.store import open_store

BATCH = int(os.environ.get("BATCH", "64"))


def main():
    """Print the confusion matrix and the accuracy; leave both as evaluation.json."""
    if BATCH < 1:
        sys.exit(f"BATCH={BATCH} reads no digit at a time: give 1 or more")
    directory = os.environ["TPUCTL_CHECKPOINT_DIR"].rstrip("/")
    restored = restore(directory)
    pixels, labels = digits.load(os.environ["DATA"])
    _, held_back = digits.split(len(labels))
    with Mesh.connect() as mesh:
        shares = np.array_split(held_back, mesh.chip_count)[mesh.first_chip :]
        found = [
            confusion(predict(chip, restored.tree["weights"], pixels[share]), labels[share])
            for chip, share in zip(mesh.chips, shares, strict=False)
        ]
        counts = mesh.all_reduce(found)[0].astype(int)
    if mesh.worker_id == 0:
        report(directory, restored, counts)


def predict(chip, weights, pixels):
    """The likeliest digit of each row of pixels [n, 64]; the weights stay on the chip."""
    held = {**weights, **{name: chip.put(weights[name], "bf16") for name in ("w1", "w2")}}
    guesses = [np.empty(0, int)]
    for start in range(0, len(pixels), BATCH):
        _, logits = network.forward(chip, held, pixels[start : start + BATCH])
        guesses.append((logits + weights["b2"]).argmax(axis=1))
    return np.concatenate(guesses)


def confusion(guesses, truth):
    """How often each digit was read as each, [10, 10]; float32, as the chips add."""
    counts = np.zeros((10, 10), np.float32)
    np.add.at(counts, (truth, guesses), 1)
    return counts


def report(directory, restored, counts):
    """Print the confusion matrix and the accuracy, and put both beside the checkpoints."""
    accuracy = float(np.trace(counts) / counts.sum())
    print(table(counts))
    print(f"accuracy={accuracy:.4f} step={restored.step} digits={counts.sum()}", flush=True)
    publish(
        directory,
        {
            "accuracy": accuracy,
            "confusion": counts.tolist(),
            "step": restored.step,
            "steps": int(restored.tree["step"]),
            "chip_time_s": float(restored.tree["chip_time_s"]),
        },
    )


def table(counts):
    """The confusion matrix as text: a row for each digit, a column for what it was read as."""
    lines = ["     " + "".join(f"{digit:4}" for digit in range(10))]
    lines += [f"{digit:4} " + "".join(f"{n:4}" for n in row) for digit, row in enumerate(counts)]
    return "\n".join(lines)


def publish(directory, evaluation):
    """Put evaluation.json beside the directory of the checkpoints."""
    store = open_store(directory.rpartition("/")[0])
    there = store.head("evaluation.json")
    data = json.dumps(evaluation, indent=1).encode() + b"\n"
    store.put_if_generation("evaluation.json", data, 0 if there is None else there.generation)


if __name__ == "__main__":
    main()
