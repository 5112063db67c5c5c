"""The workers of a run agree from which step it goes on, before any of them writes.

Worker 0 decides and writes ROLLBACK_<fence>; the others wait for it. From then on every commit
above that step with a lower fence is invisible, also one that a zombie makes later.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tpuctl.checkpoint import layout
from tpuctl.checkpoint.history import History, Step, read_history, read_rollback
from tpuctl.checkpoint.manifest import encode
from tpuctl.checkpoint.restoring import Restored, read_step
from tpuctl.errors import (
    ConflictError,
    DeadlineError,
    IntegrityError,
    NoCheckpointError,
    NotFoundError,
    PreconditionError,
)
from tpuctl.store import Store

NO_STEP = -1
_FIRST_WAIT_S = 0.01
_LAST_WAIT_S = 1.0

T = TypeVar("T")


def wait_for(probe: Callable[[], T | None], timeout_s: float) -> T | None:
    """What the probe finds, asked ever more rarely; None when the time is over."""
    deadline = time.monotonic() + timeout_s
    pause_s = _FIRST_WAIT_S
    while (found := probe()) is None:
        if time.monotonic() >= deadline:
            return None
        time.sleep(pause_s)
        pause_s = min(_LAST_WAIT_S, pause_s * 1.5)
    return found


def decide(store: Store, fence: int, step: int | None) -> Restored | None:
    """Worker 0: restore the newest good step (or that one), mark worse ones, say so to all."""
    history = read_history(store)
    check_fence(history, fence)
    restored = _first_good(store, fence, history, step)
    announce(store, fence, NO_STEP if restored is None else restored.step)
    return restored


def announce(store: Store, fence: int, origin: int) -> None:
    """Write ROLLBACK; ConflictError when another run has this fence."""
    try:
        store.put_if_absent(layout.rollback_key(fence), encode({"fence": fence, "from": origin}))
    except PreconditionError as error:
        raise ConflictError(
            f"a run with fence {fence} has used {store.url} already",
            hint="every run, also a repeated one, needs a higher fence (TPUCTL_FENCE)",
        ) from error


def follow(store: Store, fence: int, timeout_s: float) -> int:
    """The other workers: the step that worker 0 decided on, -1 for none."""

    def probe() -> int | None:
        try:
            return read_rollback(store, fence)
        except NotFoundError:
            return None

    origin = wait_for(probe, timeout_s)
    if origin is None:
        raise DeadlineError(f"worker 0 has not said within {timeout_s:g} s where to resume")
    return origin


def check_fence(history: History, fence: int) -> None:
    """PreconditionError when a later run has taken over."""
    later = max(history.rollbacks, default=fence)
    if later > fence:
        raise PreconditionError(f"the run with fence {fence} is superseded by that with {later}")


def _first_good(store: Store, fence: int, history: History, step: int | None) -> Restored | None:
    skipped: list[tuple[int, str]] = []
    for candidate in history.visible():
        if step is not None and candidate.step != step:
            continue
        try:
            return Restored(candidate.step, read_step(store, candidate), tuple(skipped))
        except IntegrityError as error:
            skipped.append((candidate.step, str(error)))
            _mark_bad(store, fence, candidate, str(error))
    if skipped or step is not None:
        reasons = "; ".join(f"step {number}: {reason}" for number, reason in skipped)
        raise NoCheckpointError(
            f"no checkpoint under {store.url} can be restored: {reasons or f'no step {step}'}",
            hint="to start from nothing, give the run another checkpoint directory",
        )
    return None


def _mark_bad(store: Store, fence: int, step: Step, reason: str) -> None:
    if step.committed is None:
        return
    record = encode({"step": step.step, "fence": fence, "reason": reason})
    try:
        store.put_if_absent(layout.bad_key(step.step, step.committed.generation), record)
    except PreconditionError:
        return
