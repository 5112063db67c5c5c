"""Learn to write like a poem: a transformer over all devices, split by batch and by model.

The mesh has a row for each part of the batch and a column for each part of the model; a model lies
on the devices of one worker unless TENSOR_PARALLEL says otherwise. Resumes from the newest good
checkpoint, on a slice of another size too.
"""

import os
import time
from functools import partial

import adam
import jax
import model
import numpy as np
import text
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from tpuctl.checkpoint import Checkpointer

STEPS = int(os.environ.get("STEPS", "300"))
BATCH = int(os.environ.get("BATCH", "32"))
LENGTH = int(os.environ.get("LENGTH", "128"))
LAYERS = int(os.environ.get("LAYERS", "4"))
WIDTH = int(os.environ.get("WIDTH", "128"))
HEADS = int(os.environ.get("HEADS", "8"))
SAVE_EVERY = int(os.environ.get("SAVE_EVERY", "50"))
SEED = int(os.environ.get("SEED", "0"))
LEARNING_RATE = float(os.environ.get("LEARNING_RATE", "0.003"))


def main():
    """Train from the newest checkpoint to STEPS."""
    jax.distributed.initialize()
    columns = int(os.environ.get("TENSOR_PARALLEL", jax.local_device_count()))
    shape = (jax.device_count() // columns, columns)
    mesh = jax.make_mesh(shape, ("batch", "model"), axis_types=(AxisType.Auto,) * 2)
    known, held_back = text.load(os.environ.get("DATA", "data/paradise-lost.txt.gz"))
    test = spread(mesh, text.windows(held_back, BATCH, LENGTH, SEED))
    with checkpoints() as checkpointer:
        first, state = resume(checkpointer, mesh)
        for step in range(first, STEPS):
            started = time.perf_counter()
            tokens = spread(mesh, text.windows(known, BATCH, LENGTH, [SEED, step]))
            state, loss = train_step(state, tokens, np.float32(step + 1))
            examples = BATCH // jax.process_count()
            print(
                f"step={step + 1} loss={loss:.4f} examples={examples}"
                f" examples_per_s={examples / (time.perf_counter() - started):.1f}",
                flush=True,
            )
            checkpointer.save(step + 1, state, force=step + 1 == STEPS)
    found = jax.jit(model.loss)(state["weights"], test)
    print(f"done steps={STEPS} held_back_loss={found:.4f} mesh={shape[0]}x{shape[1]}", flush=True)


def spread(mesh, array):
    """The array as a global one with its rows split over the rows of the mesh."""
    rows = NamedSharding(mesh, PartitionSpec("batch"))
    return jax.make_array_from_callback(array.shape, rows, lambda index: array[index])


def layout(mesh):
    """The sharding of each array of the state: Adam's averages lie as their weights."""
    weights = jax.tree.map(lambda split: NamedSharding(mesh, split), model.SPLIT)
    return {"weights": weights, "mean": weights, "variance": weights}


@partial(jax.jit, donate_argnums=0)
def train_step(state, tokens, step):
    """Update the weights once, with Adam; returns the new state and the mean loss."""
    loss, slopes = jax.value_and_grad(model.loss)(state["weights"], tokens)
    return adam.update(state, slopes, step, LEARNING_RATE), loss


def resume(checkpointer, mesh):
    """The step and the state of the newest good checkpoint, or the first ones."""
    size = model.Size(text.VOCABULARY, LAYERS, WIDTH, HEADS)
    state = jax.device_put(adam.initial(model.initial_weights(size, SEED)), layout(mesh))
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
