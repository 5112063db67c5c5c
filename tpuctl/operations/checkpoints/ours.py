"""The steps that tpuctl's own Checkpointer wrote."""

from dataclasses import dataclass

from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.read import step_info
from tpuctl.checkpoint.read.history import History, Step
from tpuctl.operations.checkpoints.model import Kind, State, StepView
from tpuctl.store import Store


@dataclass(frozen=True)
class OurStep:
    """A step as its directory has it."""

    view: StepView
    store: Store
    step: Step


def find(store: Store, found: History) -> list[OurStep]:
    """Every step of a history, oldest first."""
    return [OurStep(view(step), store, step) for step in found.steps]


def view(step: Step) -> StepView:
    """What is shown of a step."""
    info = step_info.describe(step)
    return StepView(
        name=layout.step_prefix(info.step).rstrip("/"),
        step=info.step,
        kind=Kind.TPUCTL,
        state=State(info.state),
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
