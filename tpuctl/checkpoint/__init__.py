"""Checkpoints that are whole or absent: docs/checkpoint-format.md says how they lie in the store.

    with Checkpointer("gs://bucket/run", every=100) as checkpointer:
        restored = checkpointer.restore(like=state)
        ...
        checkpointer.save(step, state)

Imported by training programs, so: Python 3.10; of tpuctl only the store and the errors.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tpuctl.checkpoint.checkpointer import Checkpointer

if TYPE_CHECKING:
    from tpuctl.checkpoint.arrays.sharded_arrays import Shards
    from tpuctl.checkpoint.read.step_info import StepInfo, list_steps
    from tpuctl.checkpoint.read.step_reader import Restored, restore

__all__ = ["Checkpointer", "Restored", "Shards", "StepInfo", "list_steps", "restore"]

_PLACES = {
    "Restored": "read.step_reader",
    "restore": "read.step_reader",
    "Shards": "arrays.sharded_arrays",
    "StepInfo": "read.step_info",
    "list_steps": "read.step_info",
}


def __getattr__(name: str) -> object:
    """Imported when it is asked for: on a worker every import compiles what lies in a zip."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
