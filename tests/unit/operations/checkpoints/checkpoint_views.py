"""Steps as a directory would show them."""

from dataclasses import replace

from tpuctl.operations.checkpoints.step_view import CheckpointKind, StepState, StepView

T = 1_800_000_000.0


def view(step: int, **changes) -> StepView:
    """A complete step of ours, whose save took four seconds and blocked for half of one."""
    one = StepView(
        name=f"step_{step:012d}", step=step, kind=CheckpointKind.TPUCTL, state=StepState.COMPLETE,
        size_bytes=1000, committed_s=T + step, save_s=4.0, blocked_s=0.5, fence=2,
    )  # fmt: skip
    return replace(one, **changes)
