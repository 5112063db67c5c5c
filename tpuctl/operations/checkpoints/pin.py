"""Pins a step: neither the program that saves nor prune deletes it."""

from tpuctl.checkpoint.format import layout
from tpuctl.errors import PreconditionError
from tpuctl.operations.checkpoints.foreign import foreign_steps
from tpuctl.operations.checkpoints.own_steps import OwnStep
from tpuctl.operations.checkpoints.step_view import RESTORABLE_STATES
from tpuctl.operations.checkpoints.survey import FoundStep, has_gone


def pin_step(step: FoundStep) -> bool:
    """Pin a step; False when it was pinned already.

    Raises PreconditionError when it is not complete, or was deleted meanwhile.
    """
    if step.view.state not in RESTORABLE_STATES:
        raise PreconditionError(
            f"step {step.view.handle} is {step.view.state}: there is nothing to keep",
            hint="pin one that is COMPLETE",
        )
    try:
        step.store.put_if_absent(_key(step), b"")
    except PreconditionError:
        return False
    # Whoever deletes looks for a pin first: had it looked before, it has deleted by now.
    if has_gone(step):
        unpin_step(step)
        raise PreconditionError(
            f"step {step.view.handle} was deleted meanwhile", hint="pin one that is still there"
        )
    return True


def unpin_step(step: FoundStep) -> bool:
    """Remove the pin of a step; False when it had none."""
    return step.store.delete(_key(step))


def _key(step: FoundStep) -> str:
    if isinstance(step, OwnStep):
        return layout.pin_key(step.step.step)
    return foreign_steps.pin_key(step.view.name)
