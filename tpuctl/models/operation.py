"""A long-running operation of the API, and a command on a worker."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tpuctl.errors import RefusedError, TransientError
from tpuctl.models.node import Node


@dataclass(frozen=True, slots=True)
class Status:
    """google.rpc.Status: why something was refused; `reason` and `metadata` are ErrorInfo's."""

    code: int
    message: str
    reason: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation:
    """A requested change: whether it is done, and the error if it failed.

    `target` is the full name of what changes, `verb` such as `create` or `stop`.
    """

    name: str
    done: bool
    error: Status | None = None
    target: str = ""
    verb: str = ""
    created_s: float | None = None
    """When it was asked for, by the clock of the API, in seconds since 1970."""
    ended_s: float | None = None
    node: Node | None = None
    """The node as the change left it."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command on a worker ended; a signal is an exit status above 128, as shells count."""

    worker_id: int
    exit_status: int
    stdout: bytes = b""
    stderr: bytes = b""
    lost: str | None = None
    """Why it is not known how the command ended, when it is not."""
    refusal: RefusedError | None = None
    """Why nothing was run there: the worker is not who it should be."""

    @property
    def lost_because(self) -> str:
        """`lost` where the worker is named already; empty when it is not lost."""
        return without_worker_name(self.worker_id, self.lost or "")


def without_worker_name(worker_id: int, message: str) -> str:
    """A message about a worker, for where the worker is named already."""
    return message.removeprefix(f"worker {worker_id}").lstrip(": ")


class CommandFailedError(TransientError):
    """A command on a worker, whose output was read as it came, ended with another status than 0."""

    def __init__(self, done: CommandResult) -> None:
        """`done` holds the status and standard error; what was read is not in it."""
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        why = lines[-1] if lines else f"it ended with status {done.exit_status}"
        super().__init__(f"worker {done.worker_id}: {why}")
        self.done = done


@dataclass(frozen=True, slots=True)
class Terminal:
    """The terminal that a remote shell is shown on: its TERM and its size in characters."""

    kind: str
    columns: int
    rows: int
