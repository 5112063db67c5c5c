"""One who saves and restores 1 GiB, in a process of its own that is told what to do line by line.

    python checkpoint_contestant.py ours|safetensors|orbax

Each line is a JSON list, the name of something to do and a directory (or gs:// address); each
answer a JSON object of seconds or MiB.
"""

import importlib
import json
import os
import shutil
import statistics
import sys
import threading
import time
from pathlib import Path

import numpy as np

ARRAYS = 16
SHAPE = (4096, 4096)
STEP_SIDE = 1024
QUIET_S = 1.5
FIRST_STEPS_S = 8.0


def tree():
    """1 GiB of float32 that does not compress."""
    return {
        f"w{number:02}": np.random.default_rng(number).random(SHAPE, np.float32)
        for number in range(ARRAYS)
    }


def seconds(do, *arguments):
    """How long it takes, and what it gives."""
    began = time.perf_counter()
    result = do(*arguments)
    return time.perf_counter() - began, result


def step(state):
    """One training step: a layer of a network on all cores."""
    np.tanh(state @ state, out=state)


def steps_until(is_over):
    """The mean seconds of the steps until then."""
    state = np.random.default_rng(0).random((STEP_SIDE, STEP_SIDE), np.float32)
    times = [seconds(step, state)[0]]
    while not is_over():
        times.append(seconds(step, state)[0])
    return statistics.mean(times)


def save_beside_steps(save, wait):
    """What a save that goes on beside training costs it, in seconds."""
    end_s = time.perf_counter() + QUIET_S
    quiet_s = steps_until(lambda: time.perf_counter() > end_s)
    waiting = threading.Thread(target=wait)
    began_s = time.perf_counter()
    blocked_s, _ = seconds(save)
    waiting.start()
    busy_s = steps_until(lambda: not waiting.is_alive())
    durable_s = time.perf_counter() - began_s
    return {"blocked": blocked_s, "durable": durable_s, "quiet": quiet_s, "busy": busy_s}


def memory_mib(name):
    """VmRSS: resident now; VmHWM: at most so far."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


class Ours:
    """tpuctl.checkpoint."""

    def __init__(self):
        from tpuctl import checkpoint

        self._library = checkpoint
        self._tree = tree()
        self._open = {}
        self._step = 0

    def save(self, where):
        """From nothing to durable, nothing copied."""

        def save():
            with self._library.Checkpointer(where, keep=1) as checkpointer:
                checkpointer.save(1, self._tree, wait=True)

        return {"s": seconds(save)[0]}

    def restore(self, where):
        took_s, restored = seconds(self._library.restore, where)
        assert all(np.array_equal(restored.tree[name], self._tree[name]) for name in self._tree)
        return {"s": took_s}

    def copy(self, _):
        return {"s": seconds(lambda: {name: each.copy() for name, each in self._tree.items()})[0]}

    def save_behind(self, where):
        """By a checkpointer that stays, and keeps the memory of its copies."""
        if where not in self._open:
            self._open[where] = self._library.Checkpointer(where, keep=1)
        checkpointer = self._open[where]
        self._step += 1
        return save_beside_steps(
            lambda: checkpointer.save(self._step, self._tree), checkpointer.wait
        )

    def first_save(self, where):
        """The first save of a run that has computed for a while, in steps that are not due."""
        return self._two_saves(where, has_steps=True)

    def first_save_at_once(self, where):
        """The first save of a run whose first step is due."""
        return self._two_saves(where, has_steps=False)

    def _two_saves(self, where, *, has_steps):
        """How long the first and the second save keep a program waiting."""
        with self._library.Checkpointer(where, keep=2, every=1000) as checkpointer:
            if has_steps:
                checkpointer.save(1, self._tree)
            end_s = time.perf_counter() + FIRST_STEPS_S
            steps_until(lambda: time.perf_counter() > end_s)
            first_s = seconds(checkpointer.save, 1000, self._tree)[0]
            checkpointer.wait()
            return {"first": first_s, "later": seconds(checkpointer.save, 2000, self._tree)[0]}

    def extra_memory(self, where):
        """MiB at most beyond what is there before a first save behind the steps."""
        before_mib = memory_mib("VmRSS")
        with self._library.Checkpointer(where, keep=1) as checkpointer:
            checkpointer.save(1, self._tree)
        return {"mib": memory_mib("VmHWM") - before_mib}


class Safetensors:
    """safetensors alone, and fsync."""

    def __init__(self):
        self._library = importlib.import_module("safetensors.numpy")
        self._tree = tree()

    def save(self, where):
        def save():
            path = Path(where)
            path.mkdir()
            self._library.save_file(self._tree, path / "model.safetensors")
            sync(path / "model.safetensors")
            sync(path)

        return {"s": seconds(save)[0]}

    def restore(self, where):
        took_s, restored = seconds(self._library.load_file, Path(where, "model.safetensors"))
        assert all(np.array_equal(restored[name], self._tree[name]) for name in self._tree)
        return {"s": took_s}


class Orbax:
    """orbax-checkpoint, of the same numpy arrays; its saves behind the steps are of JAX's.

    JAX's arrays never change, so that Orbax need not copy them.
    """

    def __init__(self):
        library = importlib.import_module("orbax.checkpoint")
        jax = importlib.import_module("jax")
        self._tree = tree()
        self._of_jax = jax.device_put(self._tree)
        self._step = 0
        self._plain = library.Checkpointer(library.PyTreeCheckpointHandler())
        self._behind = library.AsyncCheckpointer(library.PyTreeCheckpointHandler())

    def save(self, where):
        return {"s": seconds(self._plain.save, where, self._tree)[0]}

    def restore(self, where):
        took_s, restored = seconds(self._plain.restore, where)
        assert all(np.array_equal(restored[name], self._tree[name]) for name in self._tree)
        return {"s": took_s}

    def save_behind(self, where):
        self._step += 1
        path = f"{where}/{self._step}"
        found = save_beside_steps(
            lambda: self._behind.save(path, self._of_jax), self._behind.wait_until_finished
        )
        shutil.rmtree(path)
        return found


def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


CONTESTANTS = {"ours": Ours, "safetensors": Safetensors, "orbax": Orbax}

if __name__ == "__main__":
    contestant = CONTESTANTS[sys.argv[1]]()
    print("{}", flush=True)
    for line in sys.stdin:
        name, where = json.loads(line)
        print(json.dumps(getattr(contestant, name)(where)), flush=True)
