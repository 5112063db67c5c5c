"""Checkpoints that are whole or absent: docs/checkpoint-format.md says how they lie in the store.

    with Checkpointer(url, worker_id=0, worker_count=4, fence=1) as checkpointer:
        restored = checkpointer.restore()
        ...
        checkpointer.save(step, {"weights": weights})

Imported by training programs, so: Python 3.10; of tpuctl only the store and the errors.
"""

from __future__ import annotations

from tpuctl.checkpoint.checkpointer import Checkpointer
from tpuctl.checkpoint.history import StepInfo, list_steps
from tpuctl.checkpoint.restoring import Restored, restore

__all__ = ["Checkpointer", "Restored", "StepInfo", "list_steps", "restore"]
