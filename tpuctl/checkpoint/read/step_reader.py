"""Reads a step back: every byte is checked before any array is handed out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tpuctl.checkpoint.arrays.array_tree import Tree, unflatten
from tpuctl.checkpoint.checkpoint_directory import Directory, open_directory
from tpuctl.checkpoint.format.commit_schema import Commit
from tpuctl.checkpoint.read import ranges
from tpuctl.checkpoint.read.block_reader import BlockReader
from tpuctl.checkpoint.read.step_history import (
    CORRUPT,
    RESTORABLE,
    CheckpointStep,
    History,
    inspect_step,
    read_history,
    read_manifest,
)
from tpuctl.checkpoint.read.targets import left_out_paths, read_targets
from tpuctl.errors import IntegrityError, NoCheckpointError, NotFoundError
from tpuctl.store import Store

LISTING_TRIES = 5
"""A step may be deleted while it is read, as often as newer ones are saved meanwhile."""


@dataclass(frozen=True)
class Restored:
    """A step's tree, and the newer steps that could not be restored, each with the reason."""

    step: int
    tree: Tree
    skipped: tuple[tuple[int, str], ...] = ()
    is_copy: bool = False
    """Whether its files were copied here: all that was read of them is what was saved."""
    left_out: tuple[str, ...] = ()
    """The paths of the arrays of the step that `like` does not name."""


class StepReading(NamedTuple):
    """The checked tree of a step."""

    tree: Tree
    is_all_read: bool
    """Whether every byte of the step was read for it."""
    left_out: tuple[str, ...]
    """The paths of the arrays that were not asked for."""


class StepDeletedError(Exception):
    """The step was deleted while it was read: it is not damaged, and newer ones exist."""


def restore(
    directory: Directory,
    step: int | None = None,
    like: Tree = None,
    *,
    client: object | None = None,
) -> Restored:
    """Restore the newest good step, or `step`, without being part of a run: nothing is written.

    `like` is a tree of arrays, shapes or Shards that says of what kind each leaf is to be, and
    which part of it is needed here. Its dicts may lack names: those arrays are not read. Raises
    NoCheckpointError when no step can be restored, UsageError when the checkpoint is of another
    tree than `like`.
    """
    return restore_newest(open_directory(directory, client), step, like)


def restore_newest(store: Store, step: int | None = None, like: Tree = None) -> Restored:
    """Restore the newest step that verifies, or `step`; NoCheckpointError when there is none."""
    for looks_left in reversed(range(LISTING_TRIES)):
        skipped: list[tuple[int, str]] = []
        try:
            history = read_history(store)
            for candidate in candidates(store, history, step):
                try:
                    reading = read_step(store, candidate, like)
                except IntegrityError as error:
                    skipped.append((candidate.step, str(error)))
                else:
                    return restored(candidate, reading, skipped)
        except StepDeletedError:
            continue
        # No listing is of one moment: a step may be committed behind it, and the one before deleted
        # ahead of it. Where there are steps, but none that has a COMMIT, it looks again.
        if skipped or not history.steps or not looks_left:
            raise no_good_step_error(store, skipped)
    raise deleted_meanwhile_error(store)


def candidates(store: Store, history: History, step: int | None) -> list[CheckpointStep]:
    """The steps that may be restored, newest first, or the one that was asked for.

    Raises NoCheckpointError when that one cannot be restored, or when it is not known which can.
    """
    if step is not None:
        return [_step_by_number(store, history, step)]
    visible = history.visible()
    doubtful = [str(each.step) for each in history.steps if each.is_doubtful]
    if doubtful and not visible:
        raise NoCheckpointError(
            f"it is not known from which step the run with fence "
            f"{history.unknown_origin_fence} went on:"
            f" ROLLBACK in {store.url} is damaged",
            hint=f"restore one by its number: {', '.join(doubtful)}",
        )
    return visible


def restored(
    step: CheckpointStep, reading: StepReading, skipped: Sequence[tuple[int, str]]
) -> Restored:
    """A step that was read, as a program gets it."""
    return Restored(step.step, reading.tree, tuple(skipped), step.is_unverified, reading.left_out)


def read_step(store: Store, step: CheckpointStep, like: Tree = None) -> StepReading:
    """The checked tree of a step.

    Raises IntegrityError with the object that is damaged, StepDeletedError when the step is gone.
    """
    if step.commit is None or step.defect:
        raise _confirm_defect(store, step)
    try:
        commit = read_manifest(store, step)
        return read_tree(store, commit, like, is_copy=step.is_unverified)
    except NotFoundError as error:
        raise StepDeletedError from error
    except IntegrityError as error:
        if _is_gone(store, step):
            raise StepDeletedError from error
        raise


def read_tree(
    store: Store, commit: Commit, like: Tree = None, *, is_copy: bool = False
) -> StepReading:
    """The tree of a COMMIT, as `like` or as arrays of numpy.

    Of a copy the header of every file is read that something is taken of: it says of which save the
    file is. Raises IntegrityError when something is damaged.
    """
    wanted = read_targets(commit.tree, commit.leaves, like)
    arrays = ranges.allocate(wanted)
    blocks = ranges.needed_blocks(commit, wanted, arrays)
    if is_copy:
        blocks = ranges.with_headers(blocks)
    reader = BlockReader(store, commit)
    reader.fill(blocks)
    is_all_read = len(blocks) == sum(map(reader.count, range(len(commit.objects))))
    leaves = [target.finish(memory) for target, memory in zip(wanted, arrays, strict=True)]
    tree = unflatten(commit.tree, leaves, like)
    return StepReading(tree, is_all_read, left_out_paths(commit.tree, wanted))


def no_good_step_error(store: Store, skipped: list[tuple[int, str]]) -> NoCheckpointError:
    """The error to raise when every step was skipped, or none exists."""
    if not skipped:
        return NoCheckpointError(f"there is no checkpoint under {store.url}")
    reasons = "; ".join(f"step {number}: {reason}" for number, reason in skipped)
    return NoCheckpointError(
        f"no checkpoint under {store.url} can be restored: {reasons}",
        hint="to start from nothing, give the run another checkpoint directory",
    )


def deleted_meanwhile_error(store: Store) -> NoCheckpointError:
    """The error to raise when every step that was tried was deleted meanwhile."""
    return NoCheckpointError(f"steps under {store.url} are deleted faster than they are read")


def _step_by_number(store: Store, history: History, number: int) -> CheckpointStep:
    step = history.find(number)
    if step is None:
        steps = ", ".join(str(each.step) for each in history.steps if each.state in RESTORABLE)
        raise NoCheckpointError(
            f"there is no step {number} under {store.url}", hint=f"there are: {steps or 'none'}"
        )
    if step.state not in (*RESTORABLE, CORRUPT):
        raise NoCheckpointError(f"step {number} under {store.url} is {step.state}: {step.reason}")
    return step


def _confirm_defect(store: Store, step: CheckpointStep) -> Exception:
    """A defect that is seen twice: a step may be replaced or deleted while it is listed."""
    again = inspect_step(store, step.step)
    if again.committed != step.committed or again.defect is None:
        return StepDeletedError()
    return IntegrityError(again.defect)


def _is_gone(store: Store, step: CheckpointStep) -> bool:
    if step.committed is None:
        return True
    there = store.head(step.committed.key)
    return there is None or there.generation != step.committed.generation
