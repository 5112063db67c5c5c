"""The handwritten digits: read from the bucket, split once, dealt out by step."""

import gzip

import numpy as np

from tpuctl.store import open_store

HELD_BACK = 360


def load(url):
    """Pixels in 0..1, [n, 64], and digits, [n], from a gs:// URL or a path."""
    directory, _, name = url.rpartition("/")
    text = gzip.decompress(open_store(directory).get_range(name)).decode("ascii")
    rows = np.array([line.split(",") for line in text.splitlines()[1:]], np.float32)
    return rows[:, :64] / 16, rows[:, 64].astype(np.int64)


def split(count):
    """Indices of the digits to learn from and of those held back: the same ones in every run."""
    order = np.random.default_rng(1998).permutation(count)
    return order[HELD_BACK:], order[:HELD_BACK]


def batch(count, size, seed, step):
    """The indices of a step's batch: every epoch a new order, known from seed and step alone."""
    epochs, places = np.divmod(np.arange(step * size, (step + 1) * size), count)
    return np.concatenate(
        [
            np.random.default_rng([seed, epoch]).permutation(count)[places[epochs == epoch]]
            for epoch in np.unique(epochs)
        ]
    )
