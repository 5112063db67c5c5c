"""The text: one token a character, windows at places known from seed and step alone."""

import gzip
from pathlib import Path

import numpy as np

VOCABULARY = 128
HELD_BACK = 0.1


def load(path):
    """The characters to learn from, and the last tenth, which is held back; int32 [n]."""
    characters = np.frombuffer(gzip.decompress(Path(path).read_bytes()), np.uint8)
    cut = int(len(characters) * (1 - HELD_BACK))
    return characters[:cut].astype(np.int32), characters[cut:].astype(np.int32)


def windows(characters, count, length, seed):
    """Windows of `length` characters and the one that follows, int32 [count, length + 1]."""
    places = np.random.default_rng(seed).integers(len(characters) - length, size=count)
    return characters[places[:, None] + np.arange(length + 1)]
