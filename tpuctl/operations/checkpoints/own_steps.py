"""The steps that tpuctl's own Checkpointer wrote."""

from dataclasses import dataclass

from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.read import step_info
from tpuctl.checkpoint.read.step_history import CheckpointStep, History
from tpuctl.operations.checkpoints.step_view import CheckpointKind, StepState, StepView
from tpuctl.store import Store


@dataclass(frozen=True)
class OwnStep:
    """A step of tpuctl's own, as it was listed."""

    view: StepView
    store: Store
    step: CheckpointStep


def find_own_steps(store: Store, found: History) -> list[OwnStep]:
    """Every step of a history, oldest first."""
    return [OwnStep(view_of(step), store, step) for step in found.steps]


def view_of(step: CheckpointStep) -> StepView:
    """A step of a history as commands show it."""
    info = step_info.describe(step)
    return StepView(
        name=layout.step_prefix(info.step).rstrip("/"),
        step=info.step,
        kind=CheckpointKind.TPUCTL,
        state=StepState(info.state),
        size_bytes=info.size_bytes,
        committed_s=info.committed_s,
        save_s=_seconds(info.save_ms),
        blocked_s=_seconds(info.blocked_ms),
        attempt=info.attempt or None,
        job=info.job or "",
        program=info.program or "",
        workers=info.workers,
        fence=info.fence,
        pinned=info.pinned,
        reason=info.reason,
    )


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
