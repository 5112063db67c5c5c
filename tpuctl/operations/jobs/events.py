"""What operations on jobs yield while they work; the command line puts it into words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tpuctl.config import Config, Context
from tpuctl.models.job import JobRecord, JobState
from tpuctl.store import Store

if TYPE_CHECKING:
    from tpuctl.api.tpu.tpu import TpuApi
    from tpuctl.jobs.interfaces import Backends


class JobRuntime(Protocol):
    """Everything that an operation on jobs may touch; clients are built on first use."""

    @property
    def config(self) -> Config:
        """The configuration file."""

    @property
    def context(self) -> Context:
        """The context in use."""

    @property
    def home(self) -> Path:
        """The directory of this user's own tpuctl files."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of the person who runs the command."""

    @property
    def now(self) -> Callable[[], float]:
        """The wall clock, in seconds since 1970."""

    @property
    def sleep(self) -> Callable[[float], None]:
        """Wait for some seconds."""

    @property
    def tpu(self) -> "TpuApi":
        """The Cloud TPU API."""

    @property
    def outside(self) -> "Backends":
        """The clients that jobs use."""

    def store(self, url: str | None = None) -> Store:
        """The store at a URL; without one, the context's bucket."""

    def bulk(self, bucket: str) -> Any:
        """A bucket by its name, with its location."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A line for the person, about nothing that is wrong."""

    text: str


@dataclass(frozen=True, slots=True)
class Warned:
    """A line for the person, about something that may go wrong."""

    text: str


@dataclass(frozen=True, slots=True)
class JobChanged:
    """A job is in another state, or there for another reason."""

    job: JobRecord


@dataclass(frozen=True, slots=True)
class Unsupervised:
    """No supervisor looks after these jobs."""

    jobs: tuple[JobRecord, ...]


@dataclass(frozen=True, slots=True)
class OtherOwnerUnsupervised:
    """No supervisor looks after a job, and this machine's own leaves it alone."""

    job: JobRecord


@dataclass(frozen=True, slots=True)
class Submitting:
    """The bucket is about to take a job: who stops now cannot know whether it did."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job is in the bucket; nobody looks after it yet."""

    job: JobRecord


@dataclass(frozen=True, slots=True)
class Reopened:
    """An ended job is queued again; nobody looks after it yet."""

    job: JobRecord


@dataclass(frozen=True, slots=True)
class ForegroundBegins:
    """This process is about to supervise a job; nobody looks after the job yet."""

    job: JobRecord


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """A job was asked to end; `was` is the state in which it had ended before."""

    job: JobRecord
    was: JobState | None


@dataclass(frozen=True, slots=True)
class SupervisorRuns:
    """A supervisor of the context runs on this machine, as process `pid` where that is known."""

    pid: int | None


@dataclass(frozen=True, slots=True)
class SecretsHandedOver:
    """The supervisor of this machine knows the values of these variables."""

    names: tuple[str, ...]


JobNotice = (
    Noted | Warned | JobChanged | Unsupervised | OtherOwnerUnsupervised | Submitting | Submitted
    | Reopened | ForegroundBegins | CancelRequested | SupervisorRuns | SecretsHandedOver
)  # fmt: skip
