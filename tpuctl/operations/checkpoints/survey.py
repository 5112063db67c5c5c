"""Every step of a checkpoint directory, whoever wrote it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from shlex import quote

from tpuctl.checkpoint.read.step_history import History, read_history
from tpuctl.errors import NoCheckpointError, NotFoundError
from tpuctl.operations.checkpoints import own_steps as ours
from tpuctl.operations.checkpoints.foreign import foreign_steps
from tpuctl.operations.checkpoints.foreign.foreign_steps import ForeignStep
from tpuctl.operations.checkpoints.own_steps import OwnStep
from tpuctl.operations.checkpoints.step_view import RESTORABLE_STATES, StepState, StepView
from tpuctl.store import Store

_BELOW = re.compile(r"(.+)/step_[0-9]{12}/COMMIT")
FoundStep = OwnStep | ForeignStep


@dataclass(frozen=True)
class CheckpointLocation:
    """A checkpoint directory, and the function that opens its store."""

    url: str
    """`gs://bucket/prefix`, or a directory's path."""
    open_store: Callable[[str], Store]
    job: str = ""
    """The job that was named instead, as it was typed."""

    @property
    def typed(self) -> str:
        """The URL, quoted for a shell."""
        return quote(self.url)

    @property
    def store(self) -> Store:
        """The store of the directory."""
        return self.open_store(self.url)


@dataclass(frozen=True)
class DirectorySurvey:
    """The steps of a checkpoint directory, tpuctl's and other frameworks'."""

    place: CheckpointLocation
    history: History
    """Of our own steps."""
    ours: Sequence[OwnStep]
    foreign: Sequence[ForeignStep]

    @property
    def steps(self) -> list[FoundStep]:
        """All steps, oldest first."""
        return sorted([*self.ours, *self.foreign], key=_order)

    @property
    def views(self) -> list[StepView]:
        """All steps as commands show them, oldest first."""
        return [each.view for each in self.steps]

    def choose(self, wanted: str | None = None) -> FoundStep:
        """The step of that number or name, else the newest that is complete.

        Raises NotFoundError when no step has that name, NoCheckpointError when none is complete.
        """
        steps = self.steps
        if wanted is not None:
            named = [each for each in steps if wanted in (each.view.name, str(each.view.step))]
            if named:  # an unfinished one may have the number of one that is complete
                return max(named, key=lambda each: (each.view.name == wanted, _is_good(each)))
            raise NotFoundError(f"there is no step {wanted!r} in {self.place.url}", hint=self._look)
        if good := [each for each in steps if _is_good(each)]:
            return good[-1]
        if doubtful := [each.view for each in steps if each.view.state in RESTORABLE_STATES]:
            raise NoCheckpointError(
                f"no step in {self.place.url} counts for certain: {doubtful[-1].reason}",
                hint=f"name one with --step; {self._look}",
            )
        last = steps[-1].view
        raise NoCheckpointError(
            f"no step in {self.place.url} is complete: {last.handle} is {last.state}",
            hint=self._look,
        )

    def corrupt_after(self, step: FoundStep) -> list[StepView]:
        """The steps that are newer than this one and CORRUPT, oldest first."""
        newer = self.steps[self.steps.index(step) + 1 :]
        return [each.view for each in newer if each.view.state == StepState.CORRUPT]

    @property
    def _look(self) -> str:
        return f"run: tpuctl checkpoint list {self.place.typed}"


def survey_directory(place: CheckpointLocation) -> DirectorySurvey:
    """List a directory; NotFoundError when no checkpoint is in it."""
    store = place.store
    history = read_history(store)
    result = DirectorySurvey(
        place,
        history,
        ours.find_own_steps(store, history),
        foreign_steps.find_foreign_steps(place.url, place.open_store),
    )
    if not result.steps:
        raise NotFoundError(f"no checkpoint is in {place.url}", hint=_not_found_hint(store))
    return result


def has_gone(step: FoundStep) -> bool:
    """Whether the object that makes a step complete was deleted or replaced since the listing."""
    if isinstance(step, OwnStep):
        seen = step.step.committed
        found = None if seen is None else step.store.head(seen.key)
        return seen is not None and (found is None or found.generation != seen.generation)
    if step.marker is None:
        return False
    return step.store.head(step.folder.prefix + step.marker) is None


def _not_found_hint(store: Store) -> str:
    """What to do when nothing is found: some name the directory above, or mean a job."""
    below = {match[1] for each in store.list() if (match := _BELOW.fullmatch(each.key))}
    if below:
        return f"there are some in {', '.join(f'{store.url}/{each}' for each in sorted(below)[:3])}"
    if store.url.startswith("gs://"):
        return "run: tpuctl data list"
    return "if a job is meant, name it by its id: tpuctl job list"


def _is_good(each: FoundStep) -> bool:
    """Whether it counts; one that may have been given up does only when it is named."""
    is_doubtful = isinstance(each, OwnStep) and each.step.is_doubtful
    return each.view.state in RESTORABLE_STATES and not is_doubtful


def _order(each: FoundStep) -> tuple[int, str]:
    step = each.view.step
    return -1 if step is None else step, each.view.name
