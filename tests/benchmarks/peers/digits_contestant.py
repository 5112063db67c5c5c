"""One who trains the digits, in a process of its own: a simulated chip, or plain numpy.

    python digits_contestant.py chip|plain|plain-kept

For each line that comes it does some steps, and answers how many seconds they took. plain-kept has
its memory kept by the process, as programs on simulated chips have.
"""

import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from benchmarks.peers import plain_digits
from localsim.core import Mesh, heap

TEMPLATE = Path(__file__).parents[3] / "templates" / "digits"
STEPS = 20
sys.path.insert(0, str(TEMPLATE))

import digits  # noqa: E402
import network  # noqa: E402
import train  # noqa: E402


def batches():
    """Dealt out before any time is taken."""
    pixels, labels = digits.load(str(TEMPLATE / "data" / "digits.csv.gz"))
    learned, _ = digits.split(len(labels))
    for step in range(STEPS):
        rows = learned[digits.batch(len(learned), train.BATCH, train.SEED, step)]
        yield pixels[rows], labels[rows]


def on_a_chip(stack, weights, momentum):
    mesh = stack.enter_context(Mesh.connect(os.environ))
    grid = mesh.grid(data=1, model=1)
    state = {"weights": {0: weights}, "momentum": {0: momentum}}
    return lambda *batch: train.train_step(mesh, grid, state, [batch])


def in_numpy(weights, momentum):
    return lambda *batch: plain_digits.train_step(weights, momentum, *batch, train.LEARNING_RATE)


def main(name):
    weights = network.initial_weights(train.HIDDEN, train.SEED)
    state = weights, {each: np.zeros_like(array) for each, array in weights.items()}
    dealt = list(batches())
    with ExitStack() as stack:
        if name == "plain-kept":
            heap.keep_freed_memory()
        step = on_a_chip(stack, *state) if name == "chip" else in_numpy(*state)
        for _ in sys.stdin:
            began = time.perf_counter()
            for batch in dealt:
                loss = step(*batch)
            print(time.perf_counter() - began, loss, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
