"""Learn handwritten digits with TensorFlow on the CPUs of all workers, data-parallel.

MultiWorkerMirroredStrategy keeps the weights the same on all workers, each of which takes its part
of every batch. Resumes from the newest good checkpoint.
"""

import os
import time

import digits
import numpy as np
import peers
import tensorflow as tf

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
    rank, worker_count = peers.join()
    # For the chips of a TPU VM of one host this line becomes, which nobody has run yet,
    # TPUStrategy(tf.distribute.cluster_resolver.TPUClusterResolver.connect("local")).
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weights = [tf.Variable(each) for each in initial()]
        momentum = [tf.Variable(tf.zeros_like(each)) for each in weights]
    train_step = make_step(strategy, weights, momentum)
    pixels, labels = digits.load(os.environ["DATA"])
    learned, held_back = digits.split(len(labels))
    with checkpoints(rank, worker_count) as checkpointer:
        for step in range(resume(checkpointer, weights, momentum), STEPS):
            started = time.perf_counter()
            rows = learned[digits.batch(len(learned), BATCH, SEED, step)]
            loss = float(train_step(*(shared(strategy, each[rows]) for each in (pixels, labels))))
            own = len(rows) // worker_count
            print(
                f"step={step + 1} loss={loss:.4f} examples={own}"
                f" examples_per_s={own / (time.perf_counter() - started):.1f}",
                flush=True,
            )
            checkpointer.save(step + 1, state(weights, momentum), force=step + 1 == STEPS)
    odds = network([each.numpy() for each in weights], pixels[held_back]).numpy()
    accuracy = np.mean(odds.argmax(axis=1) == labels[held_back])
    print(f"done steps={STEPS} accuracy={accuracy:.4f} workers={worker_count}", flush=True)


def initial():
    """The weights and biases of two layers, the same on every worker."""
    random = np.random.default_rng(SEED)
    for inputs, outputs in ((64, HIDDEN), (HIDDEN, 10)):
        yield random.normal(0, np.sqrt(2 / inputs), (inputs, outputs)).astype(np.float32)
        yield np.zeros(outputs, np.float32)


def network(weights, pixels):
    """The odds [n, 10] of each digit, as logarithms."""
    first, first_bias, second, second_bias = weights
    return tf.nn.relu(pixels @ first + first_bias) @ second + second_bias


def make_step(strategy, weights, momentum):
    """A function that makes one update and returns the mean loss of the whole batch."""

    def gradients(pixels, labels):
        with tf.GradientTape() as tape:
            odds = network(weights, pixels)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, odds)
            loss = tf.reduce_mean(losses)
        return loss, *tape.gradient(loss, weights)

    @tf.function
    def train_step(pixels, labels):
        parts = strategy.run(gradients, args=(pixels, labels))
        loss, *means = (strategy.reduce("MEAN", each, axis=None) for each in parts)
        for weight, speed, mean in zip(weights, momentum, means, strict=True):
            speed.assign(MOMENTUM * speed + mean)
            weight.assign_sub(LEARNING_RATE * speed)
        return loss

    return train_step


def shared(strategy, batch):
    """A batch [n, …] that is split over the replicas of all workers."""

    def part(context):
        return tf.constant(batch[context.replica_id_in_sync_group :: context.num_replicas_in_sync])

    return strategy.experimental_distribute_values_from_function(part)


def state(weights, momentum):
    """What a checkpoint holds: weights and momentum, in the order of the layers."""
    return {
        "weights": [each.numpy() for each in weights],
        "momentum": [each.numpy() for each in momentum],
    }


def resume(checkpointer, weights, momentum):
    """Take over the newest good checkpoint; its step, or 0 when there is none."""
    restored = checkpointer.restore(like=state(weights, momentum))
    if restored is None:
        return 0
    print(f"resumed step={restored.step}", flush=True)
    for name, variables in (("weights", weights), ("momentum", momentum)):
        for variable, value in zip(variables, restored.tree[name], strict=True):
            variable.assign(value)
    return restored.step


def checkpoints(worker_id, worker_count):
    """A checkpointer that saves every SAVE_EVERY steps, and when the worker gets SIGTERM."""
    directory = os.environ["TPUCTL_CHECKPOINT_DIR"]
    return Checkpointer(directory, worker_id, worker_count, every=SAVE_EVERY)


if __name__ == "__main__":
    main()
