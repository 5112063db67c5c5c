"""Whether the bytes of a step are what was written: every one is read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tpuctl.checkpoint.read.marking import mark_bad
from tpuctl.checkpoint.read.verifying import verify_step
from tpuctl.errors import IntegrityError, PreconditionError
from tpuctl.operations.checkpoints.foreign import verify_sealed
from tpuctl.operations.checkpoints.model import State, StepView
from tpuctl.operations.checkpoints.ours import OurStep
from tpuctl.operations.checkpoints.survey import FoundStep, has_gone

WHOLE, CORRUPT, UNSEALED, PARTIAL, GONE = "whole", "corrupt", "unsealed", "partial", "gone"


@dataclass(frozen=True)
class Verdict:
    """What was found of a step."""

    step: FoundStep
    verdict: str
    why: str = ""

    @property
    def view(self) -> StepView:
        """The step."""
        return self.step.view


def verify(step: FoundStep, advance: Callable[[int], None]) -> Verdict:
    """Read a step; `advance` is told of bytes that were compared, from any thread."""
    view = step.view
    if view.state == State.PARTIAL:
        return Verdict(step, PARTIAL, view.reason)
    try:
        wrong = "; ".join(_findings(step, advance))
    except PreconditionError as error:
        return Verdict(step, UNSEALED, str(error))
    except IntegrityError as error:
        wrong = str(error).removeprefix(f"step {view.handle}: ")
    if wrong and has_gone(step):
        return Verdict(step, GONE, "it was deleted while it was read")
    return Verdict(step, CORRUPT if wrong else WHOLE, wrong)


def remember(verdict: Verdict) -> None:
    """Mark a step of ours of which the listing did not tell that it is corrupt.

    Neither a run nor prune takes it for a good one then. The steps of others stay as they are.
    """
    step = verdict.step
    if verdict.verdict == CORRUPT and isinstance(step, OurStep) and step.step.defect is None:
        mark_bad(step.store, step.step, verdict.why)


def _findings(step: FoundStep, advance: Callable[[int], None]) -> Iterator[str]:
    if isinstance(step, OurStep):
        verify_step(step.store, step.step, advance)
    else:
        yield from verify_sealed.verify(step, advance)
