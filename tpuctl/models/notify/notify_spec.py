"""Who gets messages about a job, and about what: the field `notify` of a job file."""

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit


class NotifyEvent(StrEnum):
    """What a message can be about."""

    STARTED = "started"
    """The program began for the first time."""
    PREEMPTED = "preempted"
    RESUMED = "resumed"
    """The program began again, after a preemption, a loss or a failure."""
    FAILED = "failed"
    FINISHED = "finished"
    """The job succeeded or was cancelled."""
    OVER_BUDGET = "over-budget"
    UNSUPERVISED = "unsupervised"
    """For some minutes or more nobody looked after the job; whoever does now says so."""
    IDLE = "idle"
    """The program has not used its chips for some minutes."""


DEFAULT_EVENTS = tuple(event for event in NotifyEvent if event != NotifyEvent.STARTED)
"""What a target hears of unless it lists events: everything that a person may have to act on."""


class TargetKind(StrEnum):
    """The way a message goes; each is the key of a target in a job file."""

    SLACK = "slack"
    DISCORD = "discord"
    GOOGLE_CHAT = "google_chat"
    WEBHOOK = "webhook"
    NTFY = "ntfy"
    EMAIL = "email"
    COMMAND = "command"


class MailSecurity(StrEnum):
    """How the connection to a mail server is encrypted."""

    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


MAIL_PORTS = {MailSecurity.STARTTLS: 587, MailSecurity.TLS: 465, MailSecurity.NONE: 25}
"""The port of a mail server by its encryption, as RFC 8314 and RFC 5321 have them."""


@dataclass(frozen=True, slots=True)
class MailSettings:
    """The mail server that takes a message, and from whom to whom."""

    to: tuple[str, ...]
    sender: str
    host: str
    port: int
    security: MailSecurity = MailSecurity.STARTTLS
    user: str = ""
    password: str = ""
    """Where the password is (`env:NAME`, …), never the password; empty: no login."""


@dataclass(frozen=True, slots=True)
class NotifyTarget:
    """One receiver of messages, and the events that it hears of."""

    kind: TargetKind
    where: str = ""
    """Where the URL is (`env:NAME`, `file:PATH`, `sm://…`), or a URL without a secret in it."""
    events: tuple[NotifyEvent, ...] = DEFAULT_EVENTS
    mail: MailSettings | None = None
    command: tuple[str, ...] = ()

    @property
    def reference(self) -> str:
        """Where the target's secret is: its URL or its password; empty without one."""
        if self.mail is not None:
            return self.mail.password
        return "" if self.where.startswith(("http://", "https://")) else self.where

    @property
    def label(self) -> str:
        """The target in words, without a secret: `slack (env:SLACK_URL)`."""
        if self.mail is not None:
            return f"email to {', '.join(self.mail.to)}"
        if self.command:
            return f"command {self.command[0]}"
        plain = "" if self.reference else urlsplit(self.where).hostname
        return f"{self.kind} at {plain}" if plain else f"{self.kind} ({self.reference})"
