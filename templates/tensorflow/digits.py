"""The handwritten digits: read from the bucket, split once, and taken in batches by step."""

import gzip

import numpy as np

from tpuctl.store import open_store

HELD_BACK = 360


def load(url):
    """Pixels from 0 to 1, float32 [n, 64], and digits, int64 [n], from a gs:// URL or a path."""
    directory, _, name = url.rpartition("/")
    text = gzip.decompress(open_store(directory).get_range(name)).decode("ascii")
    rows = np.array([line.split(",") for line in text.splitlines()[1:]], np.float32)
    return rows[:, :64] / 16, rows[:, 64].astype(np.int64)


def split(count):
    """The indices of the digits to learn from and of those held back: the same in every run."""
    order = np.random.default_rng(1998).permutation(count)
    return order[HELD_BACK:], order[:HELD_BACK]


def batch(count, size, seed, step):
    """The indices [size] of the batch of a step: every epoch has its order, given seed and step."""
    epochs, places = np.divmod(np.arange(step * size, (step + 1) * size), count)
    return np.concatenate(
        [
            np.random.default_rng([seed, epoch]).permutation(count)[places[epochs == epoch]]
            for epoch in np.unique(epochs)
        ]
    )
