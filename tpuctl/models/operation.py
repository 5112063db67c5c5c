"""A long-running operation of the API, and a command on a worker."""

from dataclasses import dataclass

from tpuctl.errors import TpuctlError


@dataclass(frozen=True, slots=True)
class Operation:
    """Where a requested change stands; `error` says why it failed, when it did."""

    name: str
    done: bool
    error: TpuctlError | None = None


@dataclass(frozen=True, slots=True)
class Completed:
    """How a command on a worker ended; a signal is an exit status above 128, as shells count."""

    worker_id: int
    exit_status: int
    stdout: bytes = b""
    stderr: bytes = b""
    lost: str | None = None
    """Why the worker could not be reached, when it could not."""
