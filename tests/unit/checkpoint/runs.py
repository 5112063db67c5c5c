"""Runs of several workers in one process: each worker a Checkpointer with its own thread."""

import threading

import numpy as np

from tpuctl.checkpoint import Checkpointer, list_steps
from tpuctl.store import open_store


def tree(step):
    """Weights, a scalar and a flag; other numbers at every step."""
    random = np.random.default_rng(step)
    return {
        "layers": [random.standard_normal((10, 3)).astype(np.float32), np.arange(7) + step],
        "pair": (np.float64(step / 3), np.array(step % 2 == 0)),
        "empty": np.zeros((0, 4), np.int8),
        "step": np.int64(step),
        "of Python": [step, step / 3, True, None, "é"],
    }


class Run:
    """All workers of one run."""

    def __init__(self, directory, fence, *, worker_count=2, **options):
        options = {"timeout_s": 5.0, **options}
        place = directory if hasattr(directory, "put_if_absent") else str(directory)
        self.workers = [
            Checkpointer(place, i, worker_count, fence=fence, **options)
            for i in range(worker_count)
        ]

    def restore(self, step=None):
        """What worker 0 restores; the others must find the same."""
        first, *others = together(lambda worker: worker.restore(step), self.workers)
        for other in others:
            assert (first is None) == (other is None)
            assert first is None or (other.step, same(other.tree, first.tree)) == (first.step, True)
        return first

    def save(self, *steps, **options):
        """Every worker saves each step, and waits until it is there and old ones are gone."""
        for step in steps:
            self.call(lambda worker, at=step: worker.save(at, tree(at), **options))
            self.call(lambda worker: worker.close())
        return self

    def call(self, work):
        """The same call of every worker, all at once; what each returns."""
        return together(work, self.workers)


def together(work, items):
    """The result for each item, all at once; the first failure is raised."""
    results, failures = {}, {}

    def run(number, item):
        try:
            results[number] = work(item)
        except Exception as error:  # noqa: BLE001 (raised below)
            failures[number] = error

    threads = [threading.Thread(target=run, args=each) for each in enumerate(items)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _, failure in sorted(failures.items()):
        raise failure
    return [results[number] for number in range(len(items))]


def states(directory, **options):
    """Each step and its state, of a directory or a store."""
    is_store = hasattr(directory, "put_if_absent")
    store = directory if is_store else open_store(str(directory), **options)
    return [(info.step, info.state) for info in list_steps(store)]


def same(left, right):
    """Whether two trees are equal, kinds, dtypes, shapes and bits included."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, np.ndarray | np.generic):
        return (left.dtype, left.shape, left.tobytes()) == (
            right.dtype,
            right.shape,
            right.tobytes(),
        )
    return left == right
