"""Learn handwritten digits, data-parallel: every device takes its part of each batch.

Weights are the same on all devices, batches are split over them, and the compiler adds the sum of
the gradients over the slice. Resumes from the newest good checkpoint.
"""

import os
import time
from functools import partial

import digits
import jax
import network
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

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
    jax.distributed.initialize()
    mesh = jax.make_mesh((jax.device_count(),), ("batch",), axis_types=(AxisType.Auto,))
    pixels, labels = digits.load(os.environ["DATA"])
    learned, held_back = digits.split(len(labels))
    with checkpoints() as checkpointer:
        first, state = resume(checkpointer, mesh)
        for step in range(first, STEPS):
            started = time.perf_counter()
            rows = learned[digits.batch(len(learned), BATCH, SEED, step)]
            state, loss = train_step(state, spread(mesh, pixels[rows]), spread(mesh, labels[rows]))
            examples = BATCH // jax.process_count()
            print(
                f"step={step + 1} loss={loss:.4f} examples={examples}"
                f" examples_per_s={examples / (time.perf_counter() - started):.1f}",
                flush=True,
            )
            checkpointer.save(step + 1, state, force=step + 1 == STEPS)
    weights = jax.device_get(state["weights"])
    accuracy = network.accuracy(weights, pixels[held_back], labels[held_back])
    print(f"done steps={STEPS} accuracy={accuracy:.4f} devices={jax.device_count()}", flush=True)


def spread(mesh, array):
    """The array as a global one with its rows split over all devices.

    Every worker fills in its own rows.
    """
    rows = NamedSharding(mesh, PartitionSpec("batch"))
    return jax.make_array_from_callback(array.shape, rows, lambda index: array[index])


@partial(jax.jit, donate_argnums=0)
def train_step(state, pixels, labels):
    """Update the weights once, with momentum; returns the new state and the mean loss."""
    loss, slopes = jax.value_and_grad(network.loss)(state["weights"], pixels, labels)
    momentum = jax.tree.map(
        lambda old, slope: MOMENTUM * old - LEARNING_RATE * slope, state["momentum"], slopes
    )
    weights = jax.tree.map(lambda old, change: old + change, state["weights"], momentum)
    return {"weights": weights, "momentum": momentum}, loss


def resume(checkpointer, mesh):
    """The step and the state of the newest good checkpoint, or the first ones."""
    weights = network.initial_weights(HIDDEN, SEED)
    state = {"weights": weights, "momentum": jax.tree.map(np.zeros_like, weights)}
    state = jax.device_put(state, NamedSharding(mesh, PartitionSpec()))
    restored = checkpointer.restore(like=state)
    if restored is None:
        return 0, state
    print(f"resumed step={restored.step}", flush=True)
    return restored.step, restored.tree


def checkpoints():
    """A checkpointer that saves every SAVE_EVERY steps, and when the worker gets SIGTERM."""
    directory = os.environ["TPUCTL_CHECKPOINT_DIR"]
    return Checkpointer(directory, jax.process_index(), jax.process_count(), every=SAVE_EVERY)


if __name__ == "__main__":
    main()
