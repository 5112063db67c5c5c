"""A small training in step on all workers: weights, momentum, an order of examples, random noise.

A program gives `train` its own `save(run)` and `resume(run)`; both may use everything of `run`.
"""

import json
import os
import random
import signal
import time

from peers import Peers
from storage import Objects

STEPS = int(os.environ.get("STEPS", "30"))
SAVE_EVERY = int(os.environ.get("SAVE_EVERY", "5"))
STEP_S = float(os.environ.get("STEP_S", "0.04"))
"""What a step costs on chips."""
EXAMPLES = 480
BATCH = 4
WIDTH = 8
RATE = 0.02
MOMENTUM = 0.9
NOISE = 0.05


class Run:
    """The state of the training on one worker."""

    def __init__(self, *, has_own_noise=True):
        self.peers = Peers()
        self.worker, self.workers = self.peers.id, self.peers.count
        self.objects = Objects(os.environ["TPUCTL_CHECKPOINT_DIR"])
        self.step = 0
        self.weights = [0.0] * WIDTH
        self.momentum = [0.0] * WIDTH
        self.noise = random.Random(1000 + self.worker * has_own_noise)
        self.order = random.Random(7).sample(range(EXAMPLES), EXAMPLES)
        self.position = 0
        """Where in the order the next examples are."""
        self.is_told_to_stop = False

    def state(self):
        """Everything that the next step depends on, on this worker."""
        return {
            "step": self.step,
            "weights": self.weights,
            "momentum": self.momentum,
            "noise": self.noise.getstate(),
            "position": self.position,
        }

    def encoded(self):
        """The state as bytes."""
        return json.dumps(self.state()).encode()

    def load(self, state):
        """Go on from a state, or from its bytes."""
        found = json.loads(state) if isinstance(state, bytes) else state
        self.step = found["step"]
        self.weights, self.momentum = found["weights"], found["momentum"]
        version, numbers, gauss = found["noise"]
        self.noise.setstate((version, tuple(numbers), gauss))
        self.position = found["position"]

    def learn(self):
        """Make one step and print it; return whether any worker is told to stop."""
        time.sleep(STEP_S)
        share = BATCH // self.workers
        begin = self.position + self.worker * share
        read = [self.order[index % EXAMPLES] for index in range(begin, begin + share)]
        noise = [NOISE * self.noise.gauss(0, 1) for _ in read]
        loss, slopes = self.loss_and_slopes(read, noise)
        told = self.peers.gather([loss, *slopes, int(self.is_told_to_stop)])
        loss, *slopes = (sum(column) / BATCH for column in zip(*told, strict=True))
        for index, slope in enumerate(slopes[:WIDTH]):
            self.momentum[index] = MOMENTUM * self.momentum[index] - RATE * slope
            self.weights[index] += self.momentum[index]
        self.step += 1
        self.position += BATCH
        named = ",".join(map(str, read))
        print(f"step={self.step} loss={loss:.12g} examples={named}", flush=True)
        return slopes[WIDTH] > 0

    def loss_and_slopes(self, examples, noise):
        """The sum of the squared errors of examples, and its slope along each weight."""
        loss, slopes = 0.0, [0.0] * WIDTH
        for example, blur in zip(examples, noise, strict=True):
            inputs = inputs_of(example)
            error = sum(map(product, self.weights, inputs)) - target_of(example) + blur
            loss += error * error
            slopes = [
                slope + 2 * error * value for slope, value in zip(slopes, inputs, strict=True)
            ]
        return loss, slopes


def product(one, other):
    """One times the other."""
    return one * other


def inputs_of(example):
    """The inputs of an example, each time the same."""
    drawn = random.Random(example)
    return [drawn.uniform(-1, 1) for _ in range(WIDTH)]


def target_of(example):
    """What is to be learned of an example."""
    return sum((index + 1) * value / WIDTH for index, value in enumerate(inputs_of(example)))


def train(save, resume, at_sigterm="save", run=None):
    """Train to STEPS, saving every SAVE_EVERY steps and at the last one.

    At SIGTERM all workers finish the same step and then save and end, or end ("end"); or the
    program dies ("die"), or goes on ("ignore").
    """
    run = run or Run()
    if at_sigterm == "ignore":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif at_sigterm != "die":
        signal.signal(signal.SIGTERM, lambda *_: setattr(run, "is_told_to_stop", True))
    run.peers.connect()
    resume(run)
    if run.step:
        print(f"resumed step={run.step}", flush=True)
    while run.step < STEPS:
        is_stopping = run.learn()
        is_due = run.step % SAVE_EVERY == 0 or run.step == STEPS
        if is_due or (is_stopping and at_sigterm == "save"):
            save(run)
        if is_stopping:
            return
