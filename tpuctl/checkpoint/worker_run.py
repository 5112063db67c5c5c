"""One worker of one run: its numbers, from the program or else from the environment of a job."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from dataclasses import dataclass

from tpuctl.checkpoint.format.layout import LAST_FENCE
from tpuctl.errors import UsageError
from tpuctl.store import Store

WORKER_ID, WORKER_COUNT = "TPUCTL_WORKER_ID", "TPUCTL_WORKER_COUNT"
DIGEST, SHA_256 = "TPUCTL_CHECKPOINT_DIGEST", "sha256"
FENCE, KEEP = "TPUCTL_FENCE", "TPUCTL_CHECKPOINT_KEEP"
JOB, ATTEMPT, PROGRAM = "TPUCTL_JOB", "TPUCTL_ATTEMPT", "TPUCTL_PROGRAM_VERSION"
NOTICE = "TPUCTL_NOTICE_S"


def random_save_id() -> str:
    """128 random bits in hexadecimal digits."""
    return os.urandom(16).hex()


@dataclass(frozen=True)
class WorkerRun:
    """One worker of one run; `timeout_s` bounds each wait for another worker."""

    store: Store
    worker_id: int
    worker_count: int
    fence: int
    timeout_s: float
    job: str = ""
    attempt: int = 0
    program: str = ""
    new_save_id: Callable[[], str] = random_save_id
    digest: str = ""
    """`sha256` to have COMMIT hold the SHA-256 of every block, else ""."""


def environment_number(name: str, default: int) -> int:
    """A whole number from the environment; UsageError names a variable that holds none."""
    text = os.environ.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdecimal():
        raise UsageError(f"{name} is {text!r}, which is not a whole number")
    return int(text)


def whole_number(name: str, value: object) -> int:
    """A value as an int, of numpy too; UsageError names one that is not a whole number."""
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise UsageError(f"{name} is {value!r}, which is not a whole number") from error


def _number(name: str, value: int | None, variable: str, default: int) -> int:
    return environment_number(variable, default) if value is None else whole_number(name, value)


def resolve_run(  # noqa: PLR0913 (each one a fact of the run)
    store: Store,
    worker_id: int | None,
    worker_count: int | None,
    fence: int | None,
    timeout_s: float,
    program: str | None,
    digest: str | None = None,
) -> WorkerRun:
    """The run as the program says, and for the rest as the environment says.

    Its fence is -1 where one worker on its own is to take the next. Raises UsageError when the
    numbers make no sense, or several workers have no fence.
    """
    worker_id = _number("worker_id", worker_id, WORKER_ID, 0)
    worker_count = _number("worker_count", worker_count, WORKER_COUNT, 1)
    fence = _number("fence", fence, FENCE, -1)
    if not (0 <= worker_id < worker_count and -1 <= fence <= LAST_FENCE):
        raise UsageError(f"worker {worker_id} of {worker_count} with fence {fence} is not possible")
    if fence < 0 and worker_count > 1:
        raise UsageError(
            f"{worker_count} workers need a fence, the same for all and higher for each run",
            hint=f"set {FENCE}, as a job of tpuctl does, or pass fence=",
        )
    program = os.environ.get(PROGRAM, "") if program is None else program
    if not isinstance(program, str):
        raise UsageError(f"program_version is {program!r}, which is not text")
    digest = os.environ.get(DIGEST, "") if digest is None else digest
    if digest not in ("", SHA_256):
        raise UsageError(f"digest is {digest!r}", hint=f"the only one is {SHA_256}")
    job, attempt = os.environ.get(JOB, ""), environment_number(ATTEMPT, 0)
    return WorkerRun(
        store, worker_id, worker_count, fence, timeout_s, job, attempt, program, digest=digest
    )
