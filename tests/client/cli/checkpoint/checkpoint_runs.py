"""Checkpoint directories as runs of one worker leave them."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tpuctl.checkpoint import Checkpointer
from tpuctl.store import Store

STEP_NAME = "step_{:012d}"
NAMES = ("flags", "layers/0/w", "layers/1/w", "lr")


def tree(step: int) -> dict:
    """Two layers, flags and a scalar; other numbers at every step."""
    random = np.random.default_rng(step)
    weights = [random.standard_normal((64, 32)).astype(np.float32) for _ in range(2)]
    return {
        "layers": [{"w": each} for each in weights],
        "flags": np.array([True, False, step % 2 == 0]),
        "lr": np.float64(1 / (step + 1)),
    }


def run(
    directory: str | Store,
    *steps: int,
    fence: int = 1,
    after: int | None = None,
    between: Callable[[], object] = lambda: None,
) -> None:
    """A run that goes on after the newest step or that one, and saves these."""
    with Checkpointer(directory, 0, 1, fence=fence, keep=99) as checkpointer:
        checkpointer.restore(after)
        for step in steps:
            checkpointer.save(step, tree(step), wait=True)
            between()


def shard(directory: Path, step: int) -> Path:
    """The file of a step that holds its arrays."""
    (found,) = (directory / STEP_NAME.format(step)).rglob("*.safetensors")
    return found


def flip(path: Path) -> None:
    """Turn the last bit of a file round; even its time stays."""
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
