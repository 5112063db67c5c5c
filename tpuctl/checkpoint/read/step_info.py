"""A step as commands and programs list it."""

from __future__ import annotations

from dataclasses import dataclass

from tpuctl.checkpoint.checkpoint_directory import Directory, open_directory
from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.read.step_history import CheckpointStep, read_history


@dataclass(frozen=True)
class StepInfo:
    """What is known of a step; without COMMIT, of the newest run that wrote files of it."""

    step: int
    state: str
    """COMPLETE, PARTIAL, CORRUPT or ROLLED_BACK."""
    size_bytes: int
    workers: int
    fence: int
    committed_s: float | None
    """The store's time; None without COMMIT."""
    save_ms: int | None = None
    blocked_ms: int | None = None
    job: str = ""
    attempt: int = 0
    """0: not known."""
    program: str = ""
    created: str = ""
    """The writer's clock, RFC 3339."""
    pinned: bool = False
    reason: str = ""
    """Why it is not the step to go on from."""


def list_steps(directory: Directory, *, client: object | None = None) -> list[StepInfo]:
    """Every step of a checkpoint directory, oldest first; reads manifests, no arrays."""
    return [describe(step) for step in read_history(open_directory(directory, client)).steps]


def describe(step: CheckpointStep) -> StepInfo:
    """The information on a step of a history."""
    commit = step.commit
    if commit is None:
        return _info_without_commit(step)
    return StepInfo(
        step=step.step,
        state=step.state,
        size_bytes=commit.size_bytes,
        workers=commit.worker_count,
        fence=commit.fence,
        committed_s=_committed_s(step),
        save_ms=commit.save_ms,
        blocked_ms=commit.blocked_ms,
        job=commit.job,
        attempt=commit.attempt,
        program=commit.program,
        created=commit.created,
        pinned=step.is_pinned,
        reason=step.reason,
    )


def _info_without_commit(step: CheckpointStep) -> StepInfo:
    """Without a COMMIT that can be read there are the names and sizes of what it would name."""
    named = [(entry, layout.parse_key(entry.key)) for entry in step.entries]
    shards = [
        (entry.size_bytes, name.fence, name.worker_count)
        for entry, name in named
        if name is not None and name.kind == layout.SHARD
    ]
    fence = max((fence for _, fence, _ in shards), default=0)
    return StepInfo(
        step=step.step,
        state=step.state,
        size_bytes=sum(size_bytes for size_bytes, of, _ in shards if of == fence),
        workers=max((count for _, of, count in shards if of == fence), default=0),
        fence=fence,
        committed_s=_committed_s(step),
        pinned=step.is_pinned,
        reason=step.reason,
    )


def _committed_s(step: CheckpointStep) -> float | None:
    return None if step.committed is None else step.committed.updated_s
