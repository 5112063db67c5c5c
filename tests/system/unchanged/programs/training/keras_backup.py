"""Keras on JAX is broken off and goes on from its own backup: keras_backup.py gs://BUCKET/RUN."""

import sys

import keras
import numpy as np


class Trouble(keras.callbacks.Callback):
    """Ends the program in epoch 3, and says in which epoch a run begins."""

    def __init__(self, *, breaks_off: bool) -> None:
        super().__init__()
        self.breaks_off, self.epochs = breaks_off, []

    def on_epoch_begin(self, epoch, logs=None) -> None:
        self.epochs.append(epoch)

    def on_train_batch_end(self, batch, logs=None) -> None:
        if self.breaks_off and self.epochs[-1] == 3:
            raise KeyboardInterrupt


def train(*, breaks_off: bool) -> list[int]:
    """The epochs that a run began."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    trouble = Trouble(breaks_off=breaks_off)
    callbacks = [keras.callbacks.BackupAndRestore(sys.argv[1]), trouble]
    inputs = np.random.default_rng(0).standard_normal((64, 8))
    try:
        model.fit(inputs, inputs.sum(axis=1), epochs=5, callbacks=callbacks, verbose=0)
    except KeyboardInterrupt:
        print(f"broken off in epoch {trouble.epochs[-1]}")
    return trouble.epochs


train(breaks_off=True)
print(f"went on at epoch {train(breaks_off=False)[0]}")
