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
    with open_checkpointer() as checkpointer:
        first, state = resume(checkpointer)
        state = jax.device_put(state, NamedSharding(mesh, PartitionSpec()))
        for step in range(first, STEPS):
            started = time.perf_counter()
            rows = learned[digits.batch(len(learned), BATCH, SEED, step)]
            state, loss = train_step(state, spread(mesh, pixels[rows]), spread(mesh, labels[rows]))
            if (step + 1) % SAVE_EVERY == 0 or step + 1 == STEPS:
                checkpointer.save(step + 1, {"step": np.int64(step + 1), **jax.device_get(state)})
            examples = BATCH // jax.process_count()
            print(
                f"step={step + 1} loss={loss:.4f} examples={examples}"
                f" examples_per_s={examples / (time.perf_counter() - started):.1f}",
                flush=True,
            )
        checkpointer.wait()
    weights = jax.device_get(state["weights"])
    accuracy = network.accuracy(weights, pixels[held_back], labels[held_back])
    print(f"done steps={STEPS} accuracy={accuracy:.4f} devices={jax.device_count()}", flush=True)


def spread(mesh, array):
    """The array with its rows split over all devices; every worker fills in its own part."""
    rows = NamedSharding(mesh, PartitionSpec("batch"))
    return jax.make_array_from_callback(array.shape, rows, lambda index: array[index])


@partial(jax.jit, donate_argnums=0)
def train_step(state, pixels, labels):
    """One update with momentum; returns the new state and the mean loss of the batch."""
    loss, slopes = jax.value_and_grad(network.loss)(state["weights"], pixels, labels)
    momentum = jax.tree.map(
        lambda old, slope: MOMENTUM * old - LEARNING_RATE * slope, state["momentum"], slopes
    )
    weights = jax.tree.map(lambda old, change: old + change, state["weights"], momentum)
    return {"weights": weights, "momentum": momentum}, loss


def resume(checkpointer):
    """The step and the state of the newest good checkpoint, or the first ones."""
    restored = checkpointer.restore()
    if restored is not None:
        print(f"resumed step={restored.step}", flush=True)
        return restored.step, {key: restored.tree[key] for key in ("weights", "momentum")}
    weights = network.initial_weights(HIDDEN, SEED)
    return 0, {"weights": weights, "momentum": jax.tree.map(np.zeros_like, weights)}


def open_checkpointer():
    """Checkpoints of this attempt."""
    return Checkpointer(
        os.environ["TPUCTL_CHECKPOINT_DIR"],
        worker_id=jax.process_index(),
        worker_count=jax.process_count(),
        fence=int(os.environ.get("TPUCTL_FENCE", "1")),
        keep=int(os.environ.get("TPUCTL_CHECKPOINT_KEEP", "3")),
    )


if __name__ == "__main__":
    main()
