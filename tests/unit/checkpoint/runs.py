"""Runs of several workers in one process: each worker a Checkpointer with its own thread."""

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
    }


class Run:
    """All workers of one run."""

    def __init__(self, directory, fence, *, worker_count=2, **options):
        options = {"timeout_s": 5.0, **options}
        self.workers = [
            Checkpointer(
                str(directory), worker_id=i, worker_count=worker_count, fence=fence, **options
            )
            for i in range(worker_count)
        ]

    def restore(self, step=None):
        """What worker 0 restores; the others must find the same."""
        first, *others = [worker.restore(step) for worker in self.workers]
        for other in others:
            assert (first is None) == (other is None)
            assert first is None or (other.step, same(other.tree, first.tree)) == (first.step, True)
        return first

    def save(self, *steps):
        for step in steps:
            for worker in self.workers:
                worker.save(step, tree(step))
            for worker in self.workers:
                worker.wait()
        return self


def states(directory, **options):
    return [(info.step, info.state) for info in list_steps(open_store(str(directory), **options))]


def same(left, right):
    """Whether two trees are equal, kinds, dtypes, shapes and bits included."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())
