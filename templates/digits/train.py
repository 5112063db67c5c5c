"""Learn handwritten digits, data-parallel: every chip of every worker takes its part of each batch.

Weights are the same on all chips. A step: gradients of the own examples, their sum over the slice,
one update with momentum. Resumes from the newest good checkpoint, to the same bits.
"""

import os
import time

import digits
import network
import numpy as np

from localsim.core import Counters, Mesh
from tpuctl.checkpoint import Checkpointer

STEPS = int(os.environ.get("STEPS", "300"))
BATCH = int(os.environ.get("BATCH", "1024"))
HIDDEN = int(os.environ.get("HIDDEN", "1024"))
SAVE_EVERY = int(os.environ.get("SAVE_EVERY", "50"))
SEED = int(os.environ.get("SEED", "0"))
LEARNING_RATE = float(os.environ.get("LEARNING_RATE", "0.1"))
MOMENTUM = 0.9


def main():
    """Train from the newest checkpoint to STEPS."""
    with Mesh.connect() as mesh, checkpoints(mesh) as checkpointer:
        pixels, labels = digits.load(os.environ["DATA"])
        learned, _ = digits.split(len(labels))
        state = resume(checkpointer)
        done_s = float(state["chip_time_s"])
        for step in range(int(state["step"]), STEPS):
            started = time.perf_counter()
            rows = learned[digits.batch(len(learned), BATCH, SEED, step)]
            own = np.array_split(rows, mesh.chip_count)[mesh.first_chip :][: len(mesh.chips)]
            before = total(mesh)
            loss = train_step(mesh, state, [(pixels[part], labels[part]) for part in own])
            used = total(mesh) - before
            state["step"] = np.int64(step + 1)
            state["chip_time_s"] += used.modelled_s / len(mesh.chips)
            state["examples"] += BATCH
            examples = sum(map(len, own))
            print(
                f"step={step + 1} loss={loss:.4f} examples={examples}"
                f" examples_per_s={examples / (time.perf_counter() - started):.1f}"
                f" mxu_busy={used.mxu_busy_s / used.modelled_s:.4f}",
                flush=True,
            )
            checkpointer.save(step + 1, state, force=step + 1 == STEPS)
        checkpointer.wait()
        chip_time_s = float(state["chip_time_s"]) - done_s
        print(f"done steps={int(state['step'])} chip_time_s={chip_time_s:.6f}", flush=True)


def train_step(mesh, state, parts):
    """One update of weights and momentum, in place; returns the mean loss of the batch."""
    weights, momentum = state["weights"], state["momentum"]
    found = [
        network.gradients(chip, weights, *part)
        for chip, part in zip(mesh.chips, parts, strict=True)
    ]
    loss, *sums = mesh.all_reduce([[loss, *slopes.values()] for loss, slopes in found])
    for name, slope in zip(found[0][1], sums, strict=True):
        momentum[name] = MOMENTUM * momentum[name] - np.float32(LEARNING_RATE / BATCH) * slope
        weights[name] = weights[name] + momentum[name]
    for chip in mesh.chips:
        charge_update(chip, weights)
    return float(loss) / BATCH


def charge_update(chip, weights):
    """The update is the same on every chip: computed once, charged to each."""
    chip.charge_traffic(5 * sum(array.nbytes for array in weights.values()))


def total(mesh):
    """The counters of the own chips together."""
    return sum((chip.counters for chip in mesh.chips), Counters())


def resume(checkpointer):
    """The state of the newest good checkpoint, or the first one."""
    restored = checkpointer.restore()
    if restored is not None:
        print(f"resumed step={restored.step}", flush=True)
        return restored.tree
    weights = network.initial_weights(HIDDEN, SEED)
    return {
        "step": np.int64(0),
        "weights": weights,
        "momentum": {name: np.zeros_like(array) for name, array in weights.items()},
        "chip_time_s": np.float64(0),
        "examples": np.int64(0),
    }


def checkpoints(mesh):
    """Saved every so many steps, after the last, and when the worker is told to end."""
    directory = os.environ["TPUCTL_CHECKPOINT_DIR"]
    return Checkpointer(directory, mesh.worker_id, mesh.worker_count, every=SAVE_EVERY)


if __name__ == "__main__":
    main()
