"""Sealing each step of another framework as it becomes complete, while somebody watches."""

from collections.abc import Callable, Iterator

from tpuctl.errors import (
    DeadlineError,
    IntegrityError,
    OutcomeUnknownError,
    PreconditionError,
    TpuctlError,
    TransientError,
)
from tpuctl.operations.checkpoints.foreign import foreign_steps
from tpuctl.operations.checkpoints.foreign.foreign_steps import ForeignStep
from tpuctl.operations.checkpoints.foreign.seal import seal_step
from tpuctl.operations.checkpoints.step_view import StepState
from tpuctl.store import Store

POLL_S = 10.0


def watch_and_seal(
    url: str,
    open_store: Callable[[str], Store],
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], object],
    trouble: Callable[[TpuctlError], object] = lambda _: None,
    poll_s: float = POLL_S,
) -> Iterator[ForeignStep]:
    """Each step that was sealed just now, as it was then; never ends by itself.

    The first look seals what is complete already. A look that fails for a moment is made again,
    and `trouble` is told.
    """
    known: list[ForeignStep] = []
    while True:
        try:
            found = foreign_steps.find_foreign_steps(url, open_store, known)
            for step in found:
                if _is_ready(step, known) and _try_seal(step, clock()):
                    yield step
            known = found
        except (TransientError, DeadlineError, OutcomeUnknownError) as error:
            trouble(error)
        sleep(poll_s)


def _is_ready(step: ForeignStep, known: list[ForeignStep]) -> bool:
    """Whether nothing is written into it any more: its marker came last, or it stayed the same."""
    if step.view.state is not StepState.UNSEALED:
        return False
    return step.is_settled or any(each is step for each in known)


def _try_seal(step: ForeignStep, now_s: float) -> bool:
    try:
        seal_step(step, now_s=now_s)
    except (PreconditionError, IntegrityError):
        return False  # it changed, or somebody else was faster: the next look tells
    return True
