"""What all copies of steps share: what is refused, how failures are explained, COMMIT last."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from shlex import quote
from typing import Protocol

from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.format.commit_schema import Commit, StoredObject, is_like
from tpuctl.checkpoint.format.manifest import decode_commit, encode_commit
from tpuctl.checkpoint.read.step_history import read_manifest
from tpuctl.errors import (
    ConflictError,
    IntegrityError,
    LocalIOError,
    NoCheckpointError,
    NotFoundError,
    PartialFailureError,
    RefusedError,
    TpuctlError,
)
from tpuctl.models.transfer import TransferPlan
from tpuctl.operations.checkpoints.step_view import StepState
from tpuctl.operations.checkpoints.survey import FoundStep, OwnStep, has_gone
from tpuctl.store import Entry, Store

ANOTHER = "name another directory"
RERUN = "run the same command again: what is there is not copied twice"
_HINTS: dict[type[TpuctlError], str] = {
    LocalIOError: "see that there is room and that it may be written, then run it again",
    RefusedError: ANOTHER,
}


class PlannedCopy(Protocol):
    """A step that is copied, and the plan of the transfer."""

    @property
    def step(self) -> FoundStep:
        """The step where it is copied from."""

    @property
    def plan(self) -> TransferPlan:
        """What is sent, and what is there already."""

    @property
    def target(self) -> object:
        """The place that the step gets."""


def refuse_bad(step: FoundStep) -> None:
    """Raise IntegrityError or NoCheckpointError for a step that is not to be copied."""
    view = step.view
    hint = f"run: tpuctl checkpoint list {quote(step.store.url)}"
    if view.state == StepState.CORRUPT:
        raise IntegrityError(f"step {view.handle} is CORRUPT: {view.reason}", hint=hint)
    if view.state == StepState.PARTIAL:
        raise NoCheckpointError(f"step {view.handle} is not complete", hint=hint)


@contextmanager
def explain_failures() -> Iterator[None]:
    """Add to an error without a hint what to do about it."""
    try:
        yield
    except TpuctlError as error:
        error.hint = error.hint or _HINTS.get(type(error), RERUN)
        raise


def refuse_missing(
    wanted: PlannedCopy, errors: Sequence[TpuctlError], warn: Callable[[str], object]
) -> None:
    """Raise when objects could not be copied; `warn` is told why when others could.

    NotFoundError when the step was deleted meanwhile, the first error when nothing was copied,
    else PartialFailureError.
    """
    if not errors:
        return
    if has_gone(wanted.step):
        raise NotFoundError(f"step {wanted.step.view.handle} was deleted while it was copied")
    if len(errors) == len(wanted.plan.transfers):
        raise errors[0]
    for error in errors:
        warn(str(error))
    raise PartialFailureError(
        f"{len(errors)} of {len(wanted.plan.to_send)} objects failed: there is no step yet",
        hint=RERUN,
    )


def commit_of(step: OwnStep) -> Commit:
    """The head of the manifest of a step; NoCheckpointError without one."""
    if step.step.commit is None:
        raise NoCheckpointError(f"step {step.view.handle} is not complete")
    return step.step.commit


def manifest(step: OwnStep) -> Commit:
    """The whole COMMIT of a step. Raises IntegrityError, NotFoundError when it was deleted."""
    return read_manifest(step.store, step.step)


def find_same_commit(step: OwnStep, store: Store) -> Entry | None:
    """The COMMIT of the same step in another store, None without one or when it is damaged.

    Raises ConflictError when it is that of another step of this number.
    """
    entry, commit = _find_commit(step, store)
    if commit is not None and without_generations(commit) != without_generations(manifest(step)):
        raise ConflictError(f"{store.url} has another step {commit.step}", hint=ANOTHER)
    return entry


def commit_copy(step: OwnStep, store: Store) -> None:
    """Put the COMMIT of a step whose files are all there, with the generations they have there.

    A copy is as good as what it was made of: that of an UNVERIFIED step is UNVERIFIED. Raises
    IntegrityError when a file is not what was committed, ConflictError for another step's COMMIT.
    """
    replaced = find_same_commit(step, store)
    commit = manifest(step)
    key = layout.commit_key(commit.step)
    files = {each.key: each for each in store.list(layout.step_prefix(commit.step))}
    here = replace(commit, objects=tuple(_object_there(each, files) for each in commit.objects))
    data = encode_commit(here)
    if step.step.is_unverified and step.step.committed is not None:
        data = step.store.get_range(key, generation=step.step.committed.generation)
    if replaced is None or store.get_range(key, generation=replaced.generation) != data:
        store.put_if_generation(key, data, replaced.generation if replaced else 0)


def _find_commit(step: OwnStep, store: Store) -> tuple[Entry | None, Commit | None]:
    key = layout.commit_key(step.step.step)
    entry = store.head(key)
    if entry is None:
        return None, None
    try:
        return entry, decode_commit(store.get_range(key, generation=entry.generation))
    except (IntegrityError, NotFoundError):
        return entry, None


def without_generations(commit: Commit) -> Commit:
    """The commit without the generations, which differ between copies of a step."""
    return replace(commit, objects=tuple(replace(each, generation=0) for each in commit.objects))


def _object_there(stored: StoredObject, files: Mapping[str, Entry]) -> StoredObject:
    """The object as it is there; what was sent or fetched has been verified."""
    entry = files.get(stored.path)
    if entry is None or not is_like(stored, entry):
        raise IntegrityError(
            f"{stored.path} is not what was copied", hint="run the same command again"
        )
    return replace(stored, generation=entry.generation)
