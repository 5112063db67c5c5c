"""A step as commands and programs list it."""

from __future__ import annotations

from dataclasses import dataclass

from tpuctl.checkpoint.checkpoint_directory import Directory, open_directory
from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.read.step_history import CheckpointStep, read_history

_OF_COMMIT = ("save_ms", "blocked_ms", "job", "attempt", "program", "created")
"""What a step has of its COMMIT by the same name."""


@dataclass(frozen=True)
class StepInfo:
    """What is known of a step; without COMMIT, of the newest run that wrote files of it."""

    step: int
    state: str
    """COMPLETE, UNVERIFIED, PARTIAL, CORRUPT or ROLLED_BACK."""
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
        size_bytes, workers, fence = _listed(step)
    else:
        size_bytes, workers, fence = commit.size_bytes, commit.worker_count, commit.fence
    return StepInfo(
        step=step.step,
        state=step.state,
        size_bytes=size_bytes,
        workers=workers,
        fence=fence,
        committed_s=None if step.committed is None else step.committed.updated_s,
        pinned=step.is_pinned,
        reason=step.reason,
        **({} if commit is None else {name: getattr(commit, name) for name in _OF_COMMIT}),
    )


def _listed(step: CheckpointStep) -> tuple[int, int, int]:
    """Bytes, workers and fence of the newest files: all there is without a COMMIT to be read."""
    named = [(entry, layout.parse_key(entry.key)) for entry in step.entries]
    shards = [
        (entry.size_bytes, name.worker_count, name.fence)
        for entry, name in named
        if name is not None and name.kind == layout.SHARD
    ]
    fence = max((fence for _, _, fence in shards), default=0)
    newest = [shard for shard in shards if shard[2] == fence]
    return sum(shard[0] for shard in newest), max((n for _, n, _ in newest), default=0), fence
