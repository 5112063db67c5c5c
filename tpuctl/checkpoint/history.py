"""Which steps there are, and which of them count: read from the store, never remembered.

A step exists if and only if its COMMIT does. It is rolled back when a run with a higher fence went
on from an earlier step, and bad when it was found not to be what was written.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from tpuctl.checkpoint import layout
from tpuctl.checkpoint.manifest import Commit, StoredObject, decode
from tpuctl.errors import IntegrityError, NotFoundError
from tpuctl.store import Entry, Store

COMPLETE, PARTIAL, BAD, ROLLED_BACK = "COMPLETE", "PARTIAL", "BAD", "ROLLED_BACK"


@dataclass(frozen=True)
class StepInfo:
    """A step as `tpuctl checkpoint list` shows it; `committed_s` is the store's time."""

    step: int
    state: str
    size_bytes: int
    workers: int
    fence: int
    committed_s: float | None


@dataclass(frozen=True)
class Step:
    """What lies under a step's name; `defect` says why its COMMIT cannot be restored."""

    step: int
    entries: tuple[Entry, ...]
    committed: Entry | None = None
    commit: Commit | None = None
    defect: str | None = None
    is_rolled_back: bool = False

    @property
    def state(self) -> str:
        """One of the four."""
        if self.committed is None:
            return PARTIAL
        if self.is_rolled_back:
            return ROLLED_BACK
        return BAD if self.defect else COMPLETE


@dataclass(frozen=True)
class History:
    """The steps, oldest first, and from which step the run of each fence went on."""

    steps: tuple[Step, ...]
    rollbacks: dict[int, int]

    def visible(self) -> list[Step]:
        """The steps of the newest line, newest first, bad ones included."""
        return [step for step in reversed(self.steps) if step.state in (COMPLETE, BAD)]


def list_steps(store: Store) -> list[StepInfo]:
    """Every step under a checkpoint directory, oldest first; reads manifests, no arrays."""
    return [_info(step) for step in read_history(store).steps]


def read_history(store: Store) -> History:
    """List the directory and read its small records."""
    entries: dict[int, list[Entry]] = defaultdict(list)
    rollbacks: dict[int, int] = {}
    for entry in store.list():
        if (name := layout.parse(entry.key)) is not None:
            entries[name.step].append(entry)
        elif (fence := layout.rollback_fence(entry.key)) is not None:
            rollbacks[fence] = read_rollback(store, fence)
    steps = tuple(_step(store, step, tuple(entries[step]), rollbacks) for step in sorted(entries))
    return History(steps, rollbacks)


def read_rollback(store: Store, fence: int) -> int:
    """The step from which the run of a fence went on, -1 for none."""
    record = decode(store.get_range(layout.rollback_key(fence)))
    return int(record["from"])


def _step(store: Store, step: int, entries: tuple[Entry, ...], rollbacks: dict[int, int]) -> Step:
    committed = next((each for each in entries if each.key == layout.commit_key(step)), None)
    if committed is None:
        return Step(step, entries)
    try:
        commit = Commit.decode(store.get_range(committed.key, generation=committed.generation))
    except NotFoundError:
        # Deleted or replaced since it was listed: whoever looks again will see.
        return Step(step, entries)
    except IntegrityError as error:
        return Step(step, entries, committed, None, f"COMMIT: {error}")
    return Step(
        step,
        entries,
        committed,
        commit,
        _defect(commit, committed, entries),
        any(fence > commit.fence and origin < step for fence, origin in rollbacks.items()),
    )


def _defect(commit: Commit, committed: Entry, entries: tuple[Entry, ...]) -> str | None:
    found = {each.key: StoredObject.of(each) for each in entries}
    if layout.bad_key(commit.step, committed.generation) in found:
        return "marked BAD by an earlier run"
    if committed.key != layout.commit_key(commit.step):
        return f"COMMIT: it is that of step {commit.step}"
    for each in commit.objects:
        if each.path not in found:
            return f"{each.path}: missing"
        if found[each.path] != each:
            return f"{each.path}: not the version that was committed"
    return None


def _info(step: Step) -> StepInfo:
    names = [name for name in (layout.parse(entry.key) for entry in step.entries) if name]
    fence = max((name.fence for name in names if name.fence is not None), default=0)
    count = max((name.shard_count for name in names if name.shard_count is not None), default=0)
    if step.commit is not None:
        return StepInfo(
            step.step,
            step.state,
            step.commit.size_bytes,
            step.commit.worker_count,
            step.commit.fence,
            step.committed.updated_s if step.committed else None,
        )
    size_bytes = sum(
        entry.size_bytes
        for entry, name in zip(step.entries, names, strict=True)
        if name.fence == fence and name.shard_count is not None
    )
    committed_s = step.committed.updated_s if step.committed else None
    return StepInfo(step.step, step.state, size_bytes, count, fence, committed_s)
