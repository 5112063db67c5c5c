"""Whether the bytes of a step are what was written: every one is read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tpuctl.checkpoint.read.bad_marker import mark_bad
from tpuctl.checkpoint.read.verification import verify_step
from tpuctl.errors import IntegrityError, PreconditionError
from tpuctl.operations.checkpoints.foreign import verify_sealed
from tpuctl.operations.checkpoints.own_steps import OwnStep
from tpuctl.operations.checkpoints.step_view import StepState, StepView
from tpuctl.operations.checkpoints.survey import FoundStep, has_gone

WHOLE, CORRUPT, UNSEALED, PARTIAL, GONE = "whole", "corrupt", "unsealed", "partial", "gone"


@dataclass(frozen=True)
class VerifyResult:
    """What was found of a step."""

    step: FoundStep
    verdict: str
    why: str = ""

    @property
    def view(self) -> StepView:
        """The step."""
        return self.step.view


def verify_found_step(step: FoundStep, advance: Callable[[int], None]) -> VerifyResult:
    """Read a step; `advance` is told of bytes that were compared, from any thread."""
    view = step.view
    if view.state == StepState.PARTIAL:
        return VerifyResult(step, PARTIAL, view.reason)
    try:
        wrong = "; ".join(_findings(step, advance))
    except PreconditionError as error:
        return VerifyResult(step, UNSEALED, str(error))
    except IntegrityError as error:
        wrong = str(error).removeprefix(f"step {view.handle}: ")
    if wrong and has_gone(step):
        return VerifyResult(step, GONE, "it was deleted while it was read")
    return VerifyResult(step, CORRUPT if wrong else WHOLE, wrong)


def mark_if_corrupt(verdict: VerifyResult) -> None:
    """Mark a step of ours of which the listing did not tell that it is corrupt.

    Neither a run nor prune takes it for a good one then. The steps of others stay as they are.
    """
    step = verdict.step
    if verdict.verdict == CORRUPT and isinstance(step, OwnStep) and step.step.defect is None:
        mark_bad(step.store, step.step, verdict.why)


def _findings(step: FoundStep, advance: Callable[[int], None]) -> Iterator[str]:
    if isinstance(step, OwnStep):
        verify_step(step.store, step.step, advance)
    else:
        yield from verify_sealed.find_differences(step, advance)
