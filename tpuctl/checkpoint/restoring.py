"""Reading a step back: every byte is verified before any array is handed out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import safetensors
import safetensors.numpy

from tpuctl.checkpoint.history import Step, read_history
from tpuctl.checkpoint.manifest import Commit, StoredObject
from tpuctl.checkpoint.split import Leaf, tensor_name
from tpuctl.checkpoint.tree import Array, Tree, unflatten
from tpuctl.errors import IntegrityError, NoCheckpointError, NotFoundError
from tpuctl.store import Store, crc32c, open_store

_TRIES = 2
"""Bytes damaged on the way are right the second time; those damaged at rest are not."""


@dataclass(frozen=True)
class Restored:
    """A step's tree, and the newer steps that could not be restored, each with the reason."""

    step: int
    tree: Tree
    skipped: tuple[tuple[int, str], ...] = ()


def restore(directory: str, step: int | None = None, *, client: object | None = None) -> Restored:
    """The newest good step, or that one, without being part of a run: nothing is written."""
    return newest_good(open_store(directory, client=client), step)


def newest_good(store: Store, step: int | None = None) -> Restored:
    """The newest step that verifies, or that one; NoCheckpointError when there is none."""
    skipped: list[tuple[int, str]] = []
    for candidate in read_history(store).visible():
        if step is not None and candidate.step != step:
            continue
        try:
            tree = read_step(store, candidate)
        except IntegrityError as error:
            skipped.append((candidate.step, str(error)))
        else:
            return Restored(candidate.step, tree, tuple(skipped))
    if skipped:
        reasons = "; ".join(f"step {number}: {reason}" for number, reason in skipped)
        raise NoCheckpointError(f"no checkpoint under {store.url} is whole: {reasons}")
    what = "no checkpoint" if step is None else f"no step {step}"
    raise NoCheckpointError(f"there is {what} under {store.url}")


def read_step(store: Store, step: Step) -> Tree:
    """The verified tree of a step; IntegrityError names the first object that is not right."""
    if step.commit is None or step.defect:
        raise IntegrityError(step.defect or "there is no COMMIT")
    shards = [_shard(store, each) for each in step.commit.objects]
    leaves = [_leaf(index, leaf, shards) for index, leaf in enumerate(step.commit.leaves)]
    _check_names(step.commit, shards)
    return unflatten(step.commit.tree, leaves)


def _shard(store: Store, stored: StoredObject) -> dict[str, Array]:
    data = _verified(store, stored)
    try:
        return safetensors.numpy.load(data)
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise IntegrityError(f"{stored.path}: not a safetensors file: {error}") from error


def _verified(store: Store, stored: StoredObject) -> bytes:
    for _ in range(_TRIES):
        try:
            data = store.get_range(stored.path, generation=stored.generation)
        except NotFoundError as error:
            raise IntegrityError(f"{stored.path}: missing, or replaced") from error
        except IntegrityError:
            continue
        if (len(data), crc32c(data)) == (stored.size_bytes, stored.crc32c):
            return data
    raise IntegrityError(f"{stored.path}: its bytes are not those that were committed")


def _leaf(index: int, leaf: Leaf, shards: list[dict[str, Array]]) -> Array:
    whole: Array = np.empty(leaf.shape, leaf.dtype)
    covered = 0
    for part in leaf.parts:
        array = shards[part.shard].get(tensor_name(index))
        if array is None or (array.dtype.name, array.shape) != (leaf.dtype, part.shape):
            raise IntegrityError(f"shard {part.shard}: leaf {index} is not what COMMIT says")
        whole[part.box] = array
        covered += array.size
    if covered != whole.size:
        raise IntegrityError(f"leaf {index} has {whole.size} elements, its parts {covered}")
    return whole


def _check_names(commit: Commit, shards: list[dict[str, Array]]) -> None:
    expected = sorted(
        (part.shard, tensor_name(index))
        for index, leaf in enumerate(commit.leaves)
        for part in leaf.parts
    )
    found = sorted((number, name) for number, shard in enumerate(shards) for name in shard)
    if expected != found:
        raise IntegrityError("the shards hold other leaves than COMMIT says")
