"""Keras fits a made-up set, and backs up each epoch to the bucket, as its documentation has it."""

import os
import time

import keras
import numpy as np

keras.utils.set_random_seed(0)
numbers = np.random.default_rng(0)
inputs = numbers.standard_normal((320, 16)).astype("float32")
labels = np.tanh(inputs @ numbers.standard_normal((16, 1)))
model = keras.Sequential(
    [
        keras.layers.Input((16,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dropout(0.1),
        keras.layers.Dense(1),
    ]
)
model.compile("adam", "mse")


class StepLines(keras.callbacks.Callback):
    """A line for each step, which takes a tenth of a second; Keras's own lines round the loss."""

    def on_train_batch_end(self, batch, logs=None) -> None:
        step = int(self.model.optimizer.iterations)
        print(f"step={step} loss={float(logs['loss'])!r}", flush=True)
        time.sleep(0.1)


backup = keras.callbacks.BackupAndRestore(os.environ["TPUCTL_CHECKPOINT_DIR"])
model.fit(inputs, labels, epochs=8, verbose=0, callbacks=[backup, StepLines()])
