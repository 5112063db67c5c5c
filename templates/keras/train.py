"""Learn handwritten digits with Keras on JAX, data-parallel over every device of every worker.

Keras keeps the weights the same on all devices and splits each batch over them. Resumes from the
newest good checkpoint.
"""

import os
import time

os.environ["KERAS_BACKEND"] = "jax"

import digits
import jax
import keras
import numpy as np
from keras import initializers

from tpuctl.checkpoint import Checkpointer

STEPS = int(os.environ.get("STEPS", "300"))
BATCH = int(os.environ.get("BATCH", "1024"))
HIDDEN = int(os.environ.get("HIDDEN", "1024"))
SAVE_EVERY = int(os.environ.get("SAVE_EVERY", "50"))
SEED = int(os.environ.get("SEED", "0"))
LEARNING_RATE = float(os.environ.get("LEARNING_RATE", "0.1"))


def main():
    """Train from the newest checkpoint to STEPS."""
    keras.utils.set_random_seed(SEED)
    keras.distribution.initialize()
    keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
    pixels, labels = digits.load(os.environ["DATA"])
    learned, held_back = digits.split(len(labels))
    model = network()
    with checkpoints() as checkpointer:
        for step in range(resume(checkpointer, model), STEPS):
            started = time.perf_counter()
            rows = learned[digits.batch(len(learned), BATCH, SEED, step)]
            own = np.array_split(rows, jax.process_count())[jax.process_index()]
            loss = model.train_on_batch(pixels[own], labels[own])
            print(
                f"step={step + 1} loss={loss:.4f} examples={len(own)}"
                f" examples_per_s={len(own) / (time.perf_counter() - started):.1f}",
                flush=True,
            )
            checkpointer.save(step + 1, state(model), force=step + 1 == STEPS)
    keras.distribution.set_distribution(None)
    alone = network()  # a copy without a distribution: every worker reads all digits held back
    alone.set_weights(model.get_weights())
    guesses = alone.predict_on_batch(pixels[held_back]).argmax(axis=1)
    accuracy = np.mean(guesses == labels[held_back])
    print(f"done steps={STEPS} accuracy={accuracy:.4f} devices={jax.device_count()}", flush=True)


def network():
    """Two layers, ready to be trained.

    Every worker must make the same weights, whatever else drew random numbers there: by own seeds.
    """
    model = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(HIDDEN, "relu", kernel_initializer=initializers.HeNormal(SEED)),
            keras.layers.Dense(10, kernel_initializer=initializers.GlorotUniform(SEED + 1)),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.SGD(LEARNING_RATE, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.optimizer.build(model.trainable_variables)
    return model


def variables(model):
    """What a checkpoint holds: the model's own and its optimizer's."""
    return [*model.variables, *model.optimizer.variables]


def state(model):
    """Their arrays, as they lie on the devices."""
    return [each.value for each in variables(model)]


def resume(checkpointer, model):
    """Take over the newest good checkpoint; its step, or 0 when there is none."""
    restored = checkpointer.restore(like=state(model))
    if restored is None:
        return 0
    print(f"resumed step={restored.step}", flush=True)
    for variable, value in zip(variables(model), restored.tree, strict=True):
        variable.assign(value)
    return restored.step


def checkpoints():
    """A checkpointer that saves every SAVE_EVERY steps, and when the worker gets SIGTERM."""
    directory = os.environ["TPUCTL_CHECKPOINT_DIR"]
    return Checkpointer(directory, jax.process_index(), jax.process_count(), every=SAVE_EVERY)


if __name__ == "__main__":
    main()
