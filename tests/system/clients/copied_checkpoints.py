"""A checkpoint that other programs copy, and what a copy is good for."""

from pathlib import Path

import numpy as np

from tpuctl.checkpoint import Checkpointer, list_steps
from tpuctl.store import open_store

WEIGHTS = np.arange(1000, dtype=np.float32)


def save_checkpoint(directory: Path) -> None:
    """Step 7 of one run."""
    with Checkpointer(str(directory), 0, 1, fence=1) as checkpointer:
        checkpointer.save(7, {"w": WEIGHTS}, wait=True)


def check_copied(url: str, client: object | None = None) -> None:
    """The copy is UNVERIFIED until a run has read all of it."""
    store = open_store(url, client=client)
    assert [(each.step, each.state) for each in list_steps(store)] == [(7, "UNVERIFIED")]
    with Checkpointer(store, 0, 1, fence=2) as checkpointer:
        restored = checkpointer.restore()
    assert (restored.step, restored.is_copy) == (7, True)
    np.testing.assert_array_equal(restored.tree["w"], WEIGHTS)
    assert [(each.step, each.state) for each in list_steps(store)] == [(7, "COMPLETE")]
