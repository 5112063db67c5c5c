"""Writing a step: every worker its shard and its word, worker 0 the COMMIT that makes it exist."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import safetensors.numpy

from tpuctl.checkpoint import layout
from tpuctl.checkpoint.agreement import check_fence, wait_for
from tpuctl.checkpoint.history import COMPLETE, ROLLED_BACK, Step, read_history
from tpuctl.checkpoint.manifest import Commit, StoredObject, decode, encode
from tpuctl.checkpoint.split import Leaf
from tpuctl.checkpoint.tree import Array, Structure
from tpuctl.errors import (
    DeadlineError,
    IntegrityError,
    NotFoundError,
    PreconditionError,
)
from tpuctl.store import Store


@dataclass(frozen=True)
class Run:
    """Who is writing: one worker of one run."""

    store: Store
    worker_id: int
    worker_count: int
    fence: int
    timeout_s: float


@dataclass(frozen=True)
class Snapshot:
    """A step as it was when it was to be saved: the own parts copied, the rest described."""

    step: int
    parent: int
    structure: Structure
    leaves: tuple[Leaf, ...]
    parts: Mapping[str, Array]


def write_part(run: Run, snapshot: Snapshot) -> None:
    """Put this worker's shard, then its done record."""
    key = layout.shard_key(snapshot.step, run.fence, run.worker_id, run.worker_count)
    entry = _put(run, snapshot.step, key, safetensors.numpy.save(dict(snapshot.parts)))
    record = {"worker": run.worker_id, "object": asdict(entry)}
    done = layout.done_key(snapshot.step, run.fence, run.worker_id)
    _put(run, snapshot.step, done, encode(record))


def commit(run: Run, snapshot: Snapshot) -> None:
    """Wait for every worker's part, then make the step exist; at most one run succeeds."""
    objects = _collect(run, snapshot.step)
    history = read_history(run.store)
    check_fence(history, run.fence)
    record = Commit(
        step=snapshot.step,
        fence=run.fence,
        parent=snapshot.parent,
        worker_count=run.worker_count,
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        tree=snapshot.structure,
        leaves=snapshot.leaves,
        objects=objects,
    )
    there = next((step for step in history.steps if step.step == snapshot.step), None)
    data = record.encode()
    generation = _replaceable(there)
    written = run.store.put_if_generation(layout.commit_key(snapshot.step), data, generation)
    # Older steps are deleted next, so this one is read back before.
    if run.store.get_range(written.key, generation=written.generation) != data:
        raise IntegrityError(f"{written.key} is not what was written")


def prune(store: Store, fence: int, keep: int) -> None:
    """Delete the oldest good steps of this line but the newest `keep`: COMMIT first."""
    history = read_history(store)
    check_fence(history, fence)
    good = [step for step in history.visible() if step.state == COMPLETE]
    for step in good[max(1, keep) :]:
        _delete(store, step)


def _put(run: Run, step: int, key: str, data: bytes) -> StoredObject:
    """Put what only this worker of this run may write; a failed save of it may have left one."""
    try:
        entry = run.store.put_if_absent(key, data)
    except PreconditionError:
        left = run.store.head(key)
        _refuse_committed(run, step)
        generation = 0 if left is None else left.generation
        entry = run.store.put_if_generation(key, data, generation)
    return StoredObject.of(entry)


def _refuse_committed(run: Run, step: int) -> None:
    """What this run has committed is never written again."""
    try:
        fence = Commit.decode(run.store.get_range(layout.commit_key(step))).fence
    except (NotFoundError, IntegrityError):
        return
    if fence == run.fence:
        raise PreconditionError(f"step {step} is committed already")


def _collect(run: Run, step: int) -> tuple[StoredObject, ...]:
    """Every worker's object, as it says and as the store says; names who is missing."""
    done: dict[int, StoredObject] = {}

    def probe() -> bool | None:
        for entry in run.store.list(f"{layout.attempt_prefix(step, run.fence)}done_"):
            name = layout.parse(entry.key)
            stored = _done(run.store, entry.key)
            if name is not None and name.done is not None and stored is not None:
                done[name.done] = stored
        return True if done.keys() >= set(range(run.worker_count)) else None

    if wait_for(probe, run.timeout_s) is None:
        missing = sorted(set(range(run.worker_count)) - done.keys())
        workers = ", ".join(f"worker {worker_id}" for worker_id in missing)
        raise DeadlineError(
            f"step {step} is not saved: after {run.timeout_s:g} s {workers} is missing"
        )
    return tuple(done[worker_id] for worker_id in range(run.worker_count))


def _done(store: Store, key: str) -> StoredObject | None:
    try:
        record = decode(store.get_range(key))
    except NotFoundError:
        return None
    stored = StoredObject(**record["object"])
    entry = store.head(stored.path)
    # A save that failed before leaves a record of a shard that is being replaced.
    return stored if entry is not None and StoredObject.of(entry) == stored else None


def _replaceable(there: Step | None) -> int:
    if there is None or there.committed is None:
        return 0
    if there.state == ROLLED_BACK or there.defect:
        return there.committed.generation
    raise PreconditionError(f"step {there.step} is committed already")


def _delete(store: Store, step: Step) -> None:
    if step.committed is None or step.commit is None:
        return
    if not store.delete(step.committed.key, generation=step.committed.generation):
        return
    own = layout.attempt_prefix(step.step, step.commit.fence)
    for entry in step.entries:
        if entry.key.startswith(own):
            store.delete(entry.key, generation=entry.generation)
