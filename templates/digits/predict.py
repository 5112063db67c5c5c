"""Read the digits that were held back, in batches over the chips, with the newest checkpoint."""

import json
import os

import digits
import network
import numpy as np

from localsim.core import Mesh
from tpuctl.checkpoint import restore
from tpuctl.store import open_store

BATCH = 64


def main():
    """Print the confusion matrix and the accuracy; leave both as evaluation.json."""
    directory = os.environ["TPUCTL_CHECKPOINT_DIR"].rstrip("/")
    restored = restore(directory)
    pixels, labels = digits.load(os.environ["DATA"])
    _, held_back = digits.split(len(labels))
    with Mesh.connect() as mesh:
        guesses = predict(mesh, restored.tree["weights"], pixels[held_back])
    confusion = np.zeros((10, 10), np.int64)
    np.add.at(confusion, (labels[held_back], guesses), 1)
    accuracy = float(np.trace(confusion) / confusion.sum())
    print(table(confusion))
    print(f"accuracy={accuracy:.4f} step={restored.step} digits={len(held_back)}", flush=True)
    publish(
        directory,
        {
            "accuracy": accuracy,
            "confusion": confusion.tolist(),
            "step": restored.step,
            "steps": int(restored.tree["step"]),
            "chip_time_s": float(restored.tree["chip_time_s"]),
        },
    )


def predict(mesh, weights, pixels):
    """The likeliest digit of each row, batches dealt to the chips in turn."""
    batches = [pixels[start : start + BATCH] for start in range(0, len(pixels), BATCH)]
    chips = (mesh.chips[index % len(mesh.chips)] for index in range(len(batches)))
    odds = [
        network.forward(chip, weights, batch)[1] for chip, batch in zip(chips, batches, strict=True)
    ]
    return np.concatenate(odds).argmax(axis=1)


def table(confusion):
    """Rows: the digit; columns: what it was read as."""
    lines = ["     " + "".join(f"{digit:4}" for digit in range(10))]
    lines += [f"{digit:4} " + "".join(f"{n:4}" for n in row) for digit, row in enumerate(confusion)]
    return "\n".join(lines)


def publish(directory, evaluation):
    """Put evaluation.json beside the directory of the checkpoints."""
    store = open_store(directory.rpartition("/")[0])
    there = store.head("evaluation.json")
    data = json.dumps(evaluation, indent=1).encode() + b"\n"
    store.put_if_generation("evaluation.json", data, 0 if there is None else there.generation)


if __name__ == "__main__":
    main()
