"""Learn handwritten digits on all chips of the slice: data-parallel, tensor-parallel, or both.

MODEL_PARALLEL chips share one network; so many such groups as there are share each batch. Weights,
momentum and sums are float32. Resumes from the newest good checkpoint, to the same bits.
"""

import os
import sys
import time

import digits
import network
import numpy as np
import parallel

from localsim.core import Counters, Mesh
from tpuctl.checkpoint import Checkpointer

STEPS = int(os.environ.get("STEPS", "300"))
BATCH = int(os.environ.get("BATCH", "1024"))
HIDDEN = int(os.environ.get("HIDDEN", "1024"))
MODEL_PARALLEL = int(os.environ.get("MODEL_PARALLEL", "1"))
SAVE_EVERY = int(os.environ.get("SAVE_EVERY", "50"))
SEED = int(os.environ.get("SEED", "0"))
LEARNING_RATE = float(os.environ.get("LEARNING_RATE", "0.1"))
MOMENTUM = 0.9


def main():
    """Train from the newest checkpoint to STEPS."""
    with Mesh.connect() as mesh, checkpoints(mesh) as checkpointer:
        grid = grid_of(mesh)
        pixels, labels = digits.load(os.environ["DATA"])
        learned, _ = digits.split(len(labels))
        state = resume(checkpointer, parallel.places(mesh, grid, "model"))
        arrays = saved(mesh, grid, state)
        done_s = float(state["chip_time_s"])
        for step in range(int(state["step"]), STEPS):
            started = time.perf_counter()
            rows = learned[digits.batch(len(learned), BATCH, SEED, step)]
            shares = np.array_split(rows, grid.size("data"))
            own = [shares[index] for index in parallel.places(mesh, grid, "data")]
            before = total(mesh)
            loss = train_step(mesh, grid, state, [(pixels[share], labels[share]) for share in own])
            used = total(mesh) - before
            state["step"] = np.int64(step + 1)
            state["chip_time_s"] += used.modelled_s / len(mesh.chips)
            state["examples"] += BATCH
            examples = sum(map(len, own)) // MODEL_PARALLEL
            print(
                f"step={step + 1} loss={loss:.4f} examples={examples}"
                f" examples_per_s={examples / (time.perf_counter() - started):.1f}"
                f" mxu_busy={used.mxu_busy_s / used.modelled_s:.4f}",
                flush=True,
            )
            checkpointer.save(step + 1, {**state, **arrays}, force=step + 1 == STEPS)
        checkpointer.wait()
        chip_time_s = float(state["chip_time_s"]) - done_s
        print(f"done steps={int(state['step'])} chip_time_s={chip_time_s:.6f}", flush=True)


def grid_of(mesh):
    """Arrange the chips as a grid; those that share a network are neighbours."""
    if MODEL_PARALLEL < 1 or mesh.chip_count % MODEL_PARALLEL or HIDDEN % MODEL_PARALLEL:
        what = f"{mesh.chip_count} chips and HIDDEN={HIDDEN}"
        sys.exit(f"MODEL_PARALLEL={MODEL_PARALLEL} does not divide both {what}")
    return mesh.grid(data=mesh.chip_count // MODEL_PARALLEL, model=MODEL_PARALLEL)


def train_step(mesh, grid, state, batch):
    """Update weights and momentum once, in place; returns the mean loss of the batch."""
    found = parallel.gradients(mesh, grid, state["weights"], batch)
    for index, (_, slopes) in found.items():
        update(state["weights"][index], state["momentum"][index], slopes)
    # Chips at one index hold the same: the update is computed once, and charged to each of them.
    # It reads gradients, momentum and weights, and writes the last two.
    held, *_ = state["weights"].values()
    for chip in mesh.chips:
        chip.charge_traffic(5 * sum(array.nbytes for array in held.values()))
    (loss, _), *_ = found.values()
    return float(loss) / BATCH


def update(weights, momentum, slopes):
    """Move the weights by gradient descent with momentum, in place."""
    for name, slope in slopes.items():
        momentum[name] *= MOMENTUM
        momentum[name] -= np.float32(LEARNING_RATE / BATCH) * slope
        weights[name] += momentum[name]


def total(mesh):
    """The sum of the counters of this worker's chips."""
    return sum((chip.counters for chip in mesh.chips), Counters())


def resume(checkpointer, places):
    """The newest good checkpoint or the first state, its arrays cut for this worker's chips."""
    restored = checkpointer.restore()
    if restored is not None:
        print(f"resumed step={restored.step}", flush=True)
    state = first_state() if restored is None else restored.tree
    for group in ("weights", "momentum"):
        parts = {index: parallel.part(state[group], index, MODEL_PARALLEL) for index in places}
        state[group] = parts
    return state


def first_state():
    """The state before the first step."""
    weights = network.initial_weights(HIDDEN, SEED)
    return {
        "step": np.int64(0),
        "weights": weights,
        "momentum": {name: np.zeros_like(array) for name, array in weights.items()},
        "chip_time_s": np.float64(0),
        "examples": np.int64(0),
    }


def saved(mesh, grid, state):
    """The arrays that this worker saves: the parts of its chips that are first along "data"."""
    data, model = (parallel.places(mesh, grid, axis) for axis in ("data", "model"))
    first = {part for share, part in zip(data, model, strict=True) if share == 0}
    return {
        group: parallel.whole(state[group], MODEL_PARALLEL, first)
        for group in ("weights", "momentum")
    }


def checkpoints(mesh):
    """A checkpointer that saves every SAVE_EVERY steps, and when the worker gets SIGTERM."""
    directory = os.environ["TPUCTL_CHECKPOINT_DIR"]
    return Checkpointer(directory, mesh.worker_id, mesh.worker_count, every=SAVE_EVERY)


if __name__ == "__main__":
    main()
