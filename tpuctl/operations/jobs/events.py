"""What operations on jobs yield while they work; the command line puts it into words."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tpuctl.config import Config, Context
from tpuctl.models.inference.service_record import ServiceRecord
from tpuctl.models.job import JobRecord, JobState
from tpuctl.store import Store

if TYPE_CHECKING:
    from tpuctl.api.tpu.tpu import TpuApi
    from tpuctl.jobs.interfaces import Backends, LimitCheck


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

    @property
    def check_limit(self) -> "LimitCheck | None":
        """What tells whether slices exceed what the context may cost; None: it may cost all."""

    def store(self, url: str | None = None) -> Store:
        """The store at a URL; without one, the context's bucket."""

    def bulk(self, bucket: str) -> Any:
        """A bucket by its name, with its location."""


class Noted(NamedTuple):
    """A line for the person, about nothing that is wrong."""

    text: str


class Warned(NamedTuple):
    """A line for the person, about something that may go wrong."""

    text: str


class JobChanged(NamedTuple):
    """A job is in another state, or there for another reason."""

    job: JobRecord


class Unsupervised(NamedTuple):
    """No supervisor looks after these jobs."""

    jobs: tuple[JobRecord, ...]


class OtherOwnerUnsupervised(NamedTuple):
    """No supervisor looks after a job, and this machine's own leaves it alone."""

    job: JobRecord


class Submitting(NamedTuple):
    """The bucket is about to take a job: who stops now cannot know whether it did."""


class Submitted(NamedTuple):
    """A job is in the bucket; nobody looks after it yet."""

    job: JobRecord


class Reopened(NamedTuple):
    """An ended job is queued again; nobody looks after it yet."""

    job: JobRecord


class ServiceSubmitted(NamedTuple):
    """A service is in the bucket; nobody looks after it yet."""

    service: ServiceRecord


class ServiceChanged(NamedTuple):
    """A service is in another state, or there for another reason."""

    service: ServiceRecord


class ServicesUnsupervised(NamedTuple):
    """No supervisor looks after these services."""

    services: tuple[ServiceRecord, ...]


class CancelRequested(NamedTuple):
    """A job was asked to end; `was` is the state in which it had ended before."""

    job: JobRecord
    was: JobState | None


class SupervisorRuns(NamedTuple):
    """A supervisor of the context runs on this machine, as process `pid` where that is known."""

    pid: int | None


class SecretsHandedOver(NamedTuple):
    """The supervisor of this machine knows the values of these variables."""

    names: tuple[str, ...]


JobNotice = (
    Noted | Warned | JobChanged | Unsupervised | OtherOwnerUnsupervised | Submitting | Submitted
    | Reopened | CancelRequested | SupervisorRuns | SecretsHandedOver
    | ServiceSubmitted | ServiceChanged | ServicesUnsupervised
)  # fmt: skip
