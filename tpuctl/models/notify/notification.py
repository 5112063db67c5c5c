"""A message about a job as its record keeps it: what it is about, and who has got it."""

from dataclasses import dataclass
from enum import StrEnum

from tpuctl.models.notify.notify_spec import NotifyEvent


class SendState(StrEnum):
    """What became of a message on its way to one target."""

    PENDING = "pending"
    """It is sent, or tried again; whether it arrived is not known yet."""
    SENT = "sent"
    GIVEN_UP = "given-up"


@dataclass(frozen=True, slots=True)
class Sending:
    """One message on its way to one target."""

    target: int
    """The number of the target in the job's `notify`, from 0."""
    state: SendState = SendState.PENDING
    time_s: float | None = None
    """When it arrived or was given up."""
    error: str = ""
    """Why it did not arrive when it was last tried, without a secret."""


@dataclass(frozen=True, slots=True)
class Notification:
    """A message about a job; written with the change that it is about, before it is sent."""

    notification_id: str
    """The same however often it is sent: job, event and number of the attempt."""
    event: NotifyEvent
    time_s: float
    attempt: int
    """The number of the attempt that it is about; 0 before the first."""
    fence: int
    """That of the supervisor which wrote it: under a later one it may have been sent before."""
    text: str = ""
    """What the record does not say otherwise: since when nobody looked after the job, …"""
    sendings: tuple[Sending, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether some target may still get it."""
        return any(sending.state == SendState.PENDING for sending in self.sendings)
