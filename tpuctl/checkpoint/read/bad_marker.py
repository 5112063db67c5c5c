"""The mark that a step cannot be restored: no run, nor clean-up, takes it for a good one then."""

from __future__ import annotations

from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.format.manifest import encode
from tpuctl.checkpoint.read.step_history import CheckpointStep
from tpuctl.errors import PreconditionError
from tpuctl.store import Store

NO_RUN = 0
"""In place of a fence: it was found by somebody who looked."""


def mark_bad(store: Store, step: CheckpointStep, reason: str, fence: int = NO_RUN) -> None:
    """Mark this generation of the step's COMMIT, for the run with that fence; once is enough."""
    if step.committed is None:
        return
    record = encode({"step": step.step, "fence": fence, "reason": reason})
    try:
        store.put_if_absent(layout.bad_key(step.step, step.committed.generation), record)
    except PreconditionError:
        return  # somebody has said so before
