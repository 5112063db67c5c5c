"""Where checkpoints are, and every step of a directory, whoever wrote it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Protocol

from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.read import step_info
from tpuctl.checkpoint.read.step_history import CheckpointStep, History, read_history
from tpuctl.errors import NoCheckpointError, NotFoundError, UsageError
from tpuctl.operations.checkpoints.foreign import foreign_steps
from tpuctl.operations.checkpoints.foreign.foreign_steps import ForeignStep
from tpuctl.operations.checkpoints.step_view import (
    RESTORABLE_STATES,
    CheckpointKind,
    StepState,
    StepView,
)
from tpuctl.operations.stage.plan.names import split_url
from tpuctl.store import Store, open_store

if TYPE_CHECKING:
    from tpuctl.models.job import JobRecord

JOB_NAME = re.compile(r"[a-z][-a-z0-9]{0,62}")
"""What a job's name or id may be: no path with a slash, a dot or an underscore."""
_BELOW = re.compile(r"(.+)/step_[0-9]{12}/COMMIT")


@dataclass(frozen=True)
class OwnStep:
    """A step that tpuctl's own Checkpointer wrote, as it was listed."""

    view: StepView
    store: Store
    step: CheckpointStep


FoundStep = OwnStep | ForeignStep


class StoreOpener(Protocol):
    """Opens a bucket, a part of one or a directory by its URL; the jobs' bucket without one."""

    def __call__(self, url: str | None = None) -> Store:
        """The store, not yet read."""


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
    """The history of the steps that tpuctl wrote."""
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
    listed = tuple(store.list())
    history = read_history(store, listed=listed)
    result = DirectorySurvey(
        place,
        history,
        [OwnStep(_own_view(step), store, step) for step in history.steps],
        foreign_steps.find_foreign_steps(place.url, place.open_store, listed=listed),
    )
    if not result.steps:
        raise NotFoundError(f"no checkpoint is in {place.url}", hint=_not_found_hint(store))
    return result


def has_gone(step: FoundStep) -> bool:
    """Whether the object that makes a step complete was deleted or replaced since the listing."""
    if isinstance(step, OwnStep):
        seen = step.step.committed
        current = None if seen is None else step.store.head(seen.key)
        return seen is not None and (current is None or current.generation != seen.generation)
    if step.marker is None:
        return False
    return step.store.head(step.folder.prefix + step.marker) is None


def _not_found_hint(store: Store) -> str:
    """A hint for a directory without checkpoints: they may lie below it, or a job may be meant."""
    below = {match[1] for each in store.list() if (match := _BELOW.fullmatch(each.key))}
    if below:
        return f"there are some in {', '.join(f'{store.url}/{each}' for each in sorted(below)[:3])}"
    if store.url.startswith("gs://"):
        return "run: tpuctl data list"
    return "if a job is meant, name it by its id: tpuctl job list"


def _is_good(step: FoundStep) -> bool:
    """Whether it counts; one that may have been given up does only when it is named."""
    is_doubtful = isinstance(step, OwnStep) and step.step.is_doubtful
    return step.view.state in RESTORABLE_STATES and not is_doubtful


def _order(each: FoundStep) -> tuple[int, str]:
    step = each.view.step
    return -1 if step is None else step, each.view.name


def _own_view(step: CheckpointStep) -> StepView:
    """The view of a step of a history."""
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


def resolve_directory(
    text: str, open_bucket: StoreOpener, has_jobs: Callable[[], bool]
) -> CheckpointLocation:
    """The directory that `text` means: a job's where one has that name, else the one at that path.

    What cannot be the name of a job, as `./train` and `/mnt/train`, is a path. `has_jobs` is asked
    before jobs are read. Raises UsageError when `text` is a file, or a job that does not save to a
    bucket, NotFoundError when there is neither a path nor a job.
    """
    if text.startswith("gs://"):
        return CheckpointLocation(_normalize(text), open_bucket)
    if not text:
        raise UsageError("no directory is named", hint="name it: gs://BUCKET/DIR, a path or a job")
    may_be_job = JOB_NAME.fullmatch(text) is not None
    if may_be_job and has_jobs() and (job := _find_job(open_bucket(), text)):
        return replace(job_directory(job, open_bucket), job=text)
    path = Path(text).expanduser()
    if path.is_dir():
        return CheckpointLocation(str(path), open_store)
    if path.exists():
        raise UsageError(f"{text} is a file", hint="name the directory that the steps are in")
    if not may_be_job:
        raise NotFoundError(f"there is no directory {text!r}", hint="check the path")
    raise NotFoundError(
        f"{text!r} is neither a job nor a directory here",
        hint="run: tpuctl job list, or name it as gs://BUCKET/DIR",
    )


def _find_job(store: Store, name: str) -> "JobRecord | None":
    from tpuctl.jobs import client  # all that jobs are made of: a directory needs nothing of it

    try:
        return client.describe(store, name)
    except NotFoundError:
        return None


def job_directory(job: "JobRecord", open_bucket: StoreOpener) -> CheckpointLocation:
    """The directory that a job saves to; UsageError when that is not in a bucket."""
    checkpoints = job.spec.checkpoints
    if checkpoints is None:
        raise UsageError(
            f"job {job.job_id} was given no checkpoints.dir",
            hint="name the directory that it saves to",
        )
    if not checkpoints.dir.startswith("gs://"):
        raise UsageError(
            f"job {job.job_id} saves to {checkpoints.dir} of its workers, not to a bucket",
            hint="give it checkpoints.dir: gs://BUCKET/DIR",
        )
    return CheckpointLocation(_normalize(checkpoints.dir), open_bucket)


def _normalize(url: str) -> str:
    bucket, key = split_url(url)
    return f"gs://{bucket}/{key.strip('/')}".rstrip("/")
