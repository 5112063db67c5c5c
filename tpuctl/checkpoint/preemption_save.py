"""SIGTERM before a preemption: all workers save at one step, then end."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.worker_run import WorkerRun
from tpuctl.errors import PreconditionError

EXIT_CODE = 128 + signal.SIGTERM
"""As a shell has it of a program that SIGTERM ended."""
_READERS = 16
_TERM = frozenset({signal.SIGTERM})
MIN_SAVE_S = 10.0
"""With less of the notice left nothing is begun: half a save is worth nothing."""


class PreemptionHandler:
    """Knows whether this worker got SIGTERM, the time that is left, and the last step."""

    def __init__(self, notice_s: float, now: Callable[[], float] = time.monotonic) -> None:
        """Listen to nothing yet; `notice_s` is the time between SIGTERM and the end."""
        self._notice_s = notice_s
        self._now = now
        self._told_s: float | None = None
        self._is_listening = False
        self._is_training = False
        self._asked = 0
        self._has_said_step = False
        self._greatest: int | None = None
        self._has_complained = False

    def listen(self) -> None:
        """Catch SIGTERM, if this is the main thread and nobody else catches it."""
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
            and _jax_sync_manager() is None
        ):
            _guard_forks()
            signal.signal(signal.SIGTERM, self._handle)
            self._is_listening = True

    def ignore(self) -> None:
        """Give SIGTERM back to whoever had it."""
        is_main = threading.current_thread() is threading.main_thread()
        # JAX may have caught it since: it does not tell Python.
        if self._is_listening and is_main and _jax_sync_manager() is None:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._is_listening = False

    def tell(self) -> None:
        """Begin the notice, unless it has begun."""
        if self._told_s is None:
            self._told_s = self._now()

    def is_last(self, run: WorkerRun, step: int) -> bool:
        """Whether all workers save at this step and end; to be asked at every step."""
        self._is_training = True
        self._asked += 1
        reached = _jax_sync_point(self._asked)
        if reached:
            self.tell()
        if reached is not None:
            return reached
        if self._told_s is None:
            return False
        return run.worker_count == 1 or self._is_final_step(run, step)

    def is_too_late(self, step: int) -> bool:
        """Whether too little time is left to begin a save; says so on stderr once."""
        if self.left_s >= MIN_SAVE_S:
            return False
        if not self._has_complained:
            self._has_complained = True
            sys.stderr.write(
                f"tpuctl: step {step} is not saved: of the {self._notice_s:g} s of notice"
                f" {max(0.0, self.left_s):.0f} s are left, and a save is begun"
                f" with {MIN_SAVE_S:g} s\n"
            )
        return True

    @property
    def left_s(self) -> float:
        """Seconds until the program is ended by force; infinite when it was not told to end."""
        if self._told_s is None:
            return float("inf")
        return self._told_s + self._notice_s - self._now()

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if not self._is_training:
            # Nothing is worth saving yet, and nobody would ask: end as if nobody had caught it.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            self.tell()

    def _is_final_step(self, run: WorkerRun, step: int) -> bool:
        """Whether all have said at which step they were told, and this one is behind them all.

        Then it is the same one for all, as long as they ask at the same steps: who says so at a
        step has said it before anybody can be at the next.
        """
        if not self._has_said_step:
            _announce_step(run, step)
            self._has_said_step = True
        if self._greatest is None:
            self._greatest = _greatest_announced_step(run)
        return self._greatest is not None and step > self._greatest


@functools.cache
def _guard_forks() -> None:
    """A child that is forked, to load data, ends by SIGTERM as ever; whoever ends it waits for it.

    The signal is held back while there are two: Python drops one that comes too early in the child.
    """
    os.register_at_fork(
        before=lambda: _is_caught() and signal.pthread_sigmask(signal.SIG_BLOCK, _TERM),
        after_in_parent=lambda: _is_caught() and signal.pthread_sigmask(signal.SIG_UNBLOCK, _TERM),
        after_in_child=_restore_default_handler,
    )


def _restore_default_handler() -> None:
    if _is_caught():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _TERM)


def _is_caught() -> bool:
    return isinstance(
        getattr(signal.getsignal(signal.SIGTERM), "__self__", None), PreemptionHandler
    )


def _announce_step(run: WorkerRun, step: int) -> None:
    from tpuctl.checkpoint.format.manifest import encode

    record = encode({"fence": run.fence, "worker": run.worker_id, "step": step})
    try:
        run.store.put_if_absent(layout.stop_key(run.fence, run.worker_id), record)
    except PreconditionError:
        return


def _greatest_announced_step(run: WorkerRun) -> int | None:
    """The greatest step at which a worker was told; None until all have said theirs."""
    from tpuctl.checkpoint.format.manifest import decode
    from tpuctl.checkpoint.format.record_cache import read_record
    from tpuctl.checkpoint.parallel import parallel_map

    entries = {entry.key: entry for entry in run.store.list(layout.stop_prefix(run.fence))}
    keys = [layout.stop_key(run.fence, worker_id) for worker_id in range(run.worker_count)]
    if not entries.keys() >= set(keys):
        return None

    def said(key: str) -> int:
        return int(read_record(run.store, entries[key], decode)["step"])

    return max(parallel_map(said, keys, threads=_READERS))


def _jax_sync_manager() -> object | None:
    """That of jax.distributed, when the program has it up."""
    distributed = sys.modules.get("jax._src.distributed")
    state = getattr(distributed, "global_state", None)
    manager: object | None = getattr(state, "preemption_sync_manager", None)
    return manager


def _jax_sync_point(count: int) -> bool | None:
    """Whether all processes of JAX save now; None when JAX does not say.

    It takes the greatest count that any has come to, plus 1: of the times that they asked, for
    they need not ask at every step.
    """
    if _jax_sync_manager() is None:
        return None
    from jax.experimental import multihost_utils

    return bool(multihost_utils.reached_preemption_sync_point(count))
