"""The tensors of a step with their norms, read block by block."""

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from shlex import quote
from typing import Any

from tpuctl.checkpoint.arrays.array_tree import leaf_paths
from tpuctl.checkpoint.format.commit_schema import Commit
from tpuctl.checkpoint.format.manifest import encode_commit
from tpuctl.checkpoint.read.leaf_summaries import describe_leaves
from tpuctl.checkpoint.read.step_history import read_manifest
from tpuctl.errors import IntegrityError, NotFoundError, PreconditionError, RefusedError
from tpuctl.operations.checkpoints.foreign import foreign_tensors
from tpuctl.operations.checkpoints.step_copies import manifest, without_generations
from tpuctl.operations.checkpoints.step_view import RESTORABLE_STATES, StepState, TensorView
from tpuctl.operations.checkpoints.survey import FoundStep, OwnStep, has_gone
from tpuctl.operations.checkpoints.verify import find_differences


def read_tensors(step: FoundStep, advance: Callable[[int], None]) -> tuple[list[TensorView], str]:
    """The tensors of a step, and why they cannot be shown: "" when they can.

    `advance` gets the number of bytes read. Raises IntegrityError when the step is not what was
    written, NotFoundError when it was deleted meanwhile.
    """
    try:
        return list(tensors(step, advance)), ""
    except IntegrityError as error:
        error.hint = f"which are good: tpuctl checkpoint verify {quote(step.store.url)} --all"
        raise
    except (PreconditionError, RefusedError) as error:
        return [], str(error)


def tensors(step: FoundStep, advance: Callable[[int], None]) -> Iterator[TensorView]:
    """Yield the tensors of a step; of one that is not good, without norms.

    Raises IntegrityError when the step is not what was written, PreconditionError when nothing says
    what is in it.
    """
    if not isinstance(step, OwnStep):
        # A step that looks as it was sealed must be so to the last byte: else its norms mislead.
        if step.view.state == StepState.COMPLETE and (wrong := find_differences(step)):
            raise IntegrityError(f"step {step.view.handle}: {wrong[0]}")
        yield from foreign_tensors.tensors(step, advance)
    elif step.step.commit is None:
        raise PreconditionError(step.view.reason or f"step {step.view.name} is {step.view.state}")
    elif step.view.state in RESTORABLE_STATES | {StepState.ROLLED_BACK}:
        yield from _measure_tensors(step, advance)
    else:
        commit = _read_manifest(step)
        for path, leaf in zip(leaf_paths(dict(commit.tree)), commit.leaves, strict=True):
            yield TensorView(path, leaf.dtype, leaf.shape)


def _read_manifest(step: OwnStep) -> Commit:
    """The whole COMMIT of a step that is CORRUPT; PreconditionError when it cannot be read."""
    try:
        return read_manifest(step.store, step.step)
    except (IntegrityError, NotFoundError) as error:
        raise PreconditionError(step.view.reason) from error


def _measure_tensors(step: OwnStep, advance: Callable[[int], None]) -> Iterator[TensorView]:
    try:
        for leaf in describe_leaves(step.store, read_manifest(step.store, step.step), advance):
            # JSON has no infinity: a norm may be too large for a float.
            norm = leaf.norm if leaf.norm is not None and math.isfinite(leaf.norm) else None
            yield TensorView(leaf.path, leaf.dtype, leaf.shape, norm, leaf.nan, leaf.inf)
    except IntegrityError as error:
        if has_gone(step):
            raise NotFoundError(
                f"step {step.view.handle} was deleted while it was read",
                hint="run the same command again",
            ) from error
        raise


def facts(step: FoundStep) -> dict[str, Any]:
    """Parent, creation time, writer, number of objects and fingerprint; None: not known."""
    if not isinstance(step, OwnStep) or step.step.commit is None:
        unknown = dict.fromkeys(("parent", "created", "writer"))
        return {**unknown, "objects": _objects(step), "fingerprint": None}
    commit = step.step.commit
    return {
        "parent": None if commit.parent < 0 else commit.parent,
        "created": commit.created,
        "writer": commit.writer,
        "objects": len(commit.objects),
        "fingerprint": _fingerprint(step),
    }


def _fingerprint(step: OwnStep) -> str | None:
    """The SHA-256 of a COMMIT that has digests: the same for every copy of the step, and no other.

    None where COMMIT has none, or cannot be read.
    """
    commit = step.step.commit
    if commit is None or not any(stored.digests for stored in commit.objects):
        return None
    with suppress(IntegrityError, NotFoundError):
        return hashlib.sha256(encode_commit(without_generations(manifest(step)))).hexdigest()
    return None


def _objects(step: FoundStep) -> int:
    return len(step.step.entries if isinstance(step, OwnStep) else step.entries)
