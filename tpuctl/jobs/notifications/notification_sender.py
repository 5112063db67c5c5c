"""Sends the messages of one job's record: in order to each target, side by side to all of them.

A message is in the bucket before it is sent, and that it was sent is noted after. Who dies in
between leaves a message that the next supervisor sends again, with the same id and marked as a
possible repeat: of the two, a message too many is the smaller harm.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from tpuctl.config import LOOPBACK
from tpuctl.errors import PreconditionError, TpuctlError
from tpuctl.jobs.interfaces import Clocks
from tpuctl.jobs.leases.lease import LeaseLostError
from tpuctl.jobs.notifications.delivery import command, http_post, mail
from tpuctl.jobs.notifications.delivery.outcome import NotDeliveredError
from tpuctl.jobs.notifications.messages import NotificationMessage, message_of
from tpuctl.jobs.notifications.shapes import REQUESTS
from tpuctl.jobs.record.status_text import with_event
from tpuctl.jobs.secrets.job_secrets import SECRET_MANAGER, SecretCache, redact, submitting_host
from tpuctl.models.job import EventKind, JobRecord
from tpuctl.models.notify.notification import Notification, Sending, SendState
from tpuctl.models.notify.notify_spec import NotifyTarget, TargetKind
from tpuctl.network_policy import (
    NOTIFICATION_FIRST_PAUSE_S,
    NOTIFICATION_GIVE_UP_S,
    NOTIFICATION_LONGEST_PAUSE_S,
    jittered_pause_s,
)

CHATS = frozenset({TargetKind.SLACK, TargetKind.DISCORD, TargetKind.GOOGLE_CHAT})
"""Services of the internet, whose URLs are secrets."""
Key = tuple[str, int]
"""The id of a message, and the number of a target."""


@dataclass(slots=True)
class NotificationSender:
    """The messages of one job that are under way, and what became of them since the last note."""

    clocks: Clocks
    fence: int
    vault: SecretCache
    confirm: Callable[[], None]
    """Raises LeaseLostError, TransientError: nothing is sent without the lease."""
    read_secret: Callable[[str], str]
    """The value of a `sm://` reference. Raises TpuctlError."""
    may_run: Callable[[JobRecord, Sequence[str]], bool]
    """Whether this machine's user submitted the job with that command."""
    changed: Callable[[], None]
    """Called when there is something to note."""
    tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    """By the number of the target."""
    results: dict[Key, Sending] = field(default_factory=dict)
    """What the record does not have yet."""
    due_s: dict[str, float] = field(default_factory=dict)
    """By the id of a message, since when this process has had it to send."""
    written: JobRecord | None = None
    """The record as the bucket has it."""

    def send(self, written: JobRecord) -> None:
        """Send what is pending in a record that the bucket has."""
        self.written = written
        for found, _ in self._pending():
            self.due_s.setdefault(found.notification_id, self.clocks.monotonic())
        for number in {sending.target for _, sending in self._pending()}:
            task = self.tasks.get(number)
            if task is None or task.done():
                self.tasks[number] = asyncio.create_task(self._serve(number))

    def noted(self, record: JobRecord, now_s: float) -> JobRecord:
        """The record with what became of its messages since."""
        for (notification_id, number), sending in self.results.items():
            record = _with_sending(record, notification_id, sending)
            if sending.state == SendState.GIVEN_UP:
                label = record.target_label(number)
                text = f"{label} did not get {notification_id}: {sending.error}"
                record = with_event(record, EventKind.NOT_NOTIFIED, text, now_s)
        return record

    def forget(self, written: JobRecord) -> None:
        """Drop the results that the bucket has now."""
        known = {
            (each.notification_id, sending.target): sending
            for each in written.notifications
            for sending in each.sendings
        }
        self.results = {
            key: sending for key, sending in self.results.items() if known.get(key) != sending
        }

    async def close(self) -> None:
        """Stop sending; what is pending stays so in the record."""
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)

    # -------------------------------------------------------------- one target

    def _pending(self) -> list[tuple[Notification, Sending]]:
        if self.written is None:
            return []
        return [
            (each, sending)
            for each in self.written.notifications
            for sending in each.sendings
            if sending.state == SendState.PENDING and not self._is_done(each, sending.target)
        ]

    def _is_done(self, notification: Notification, target: int) -> bool:
        result = self.results.get((notification.notification_id, target))
        return result is not None and result.state != SendState.PENDING

    async def _serve(self, number: int) -> None:
        """Send everything that is pending for one target, in order."""
        while True:
            waiting = [each for each, sending in self._pending() if sending.target == number]
            if not waiting or self.written is None:
                return
            try:
                result = await self._deliver(self.written, waiting[0], number)
            except LeaseLostError:
                return
            self._note(waiting[0], result)

    def _note(self, notification: Notification, result: Sending) -> None:
        self.results[notification.notification_id, result.target] = result
        self.changed()

    async def _deliver(self, record: JobRecord, notification: Notification, number: int) -> Sending:
        """Try until the target has the message or will not take it. Raises LeaseLostError."""
        # From when it was due on, not from its turn: messages that wait together end together.
        until_s = self.due_s[notification.notification_id] + NOTIFICATION_GIVE_UP_S
        tries = 0
        while failure := await self._try(record, notification, number):
            pause_s = failure.pause_s + jittered_pause_s(
                tries, first_s=NOTIFICATION_FIRST_PAUSE_S, longest_s=NOTIFICATION_LONGEST_PAUSE_S
            )
            if failure.is_final or self.clocks.monotonic() + pause_s > until_s:
                return Sending(number, SendState.GIVEN_UP, self.clocks.now(), str(failure))
            if tries == 0:
                self._note(notification, Sending(number, error=str(failure)))
            tries += 1
            await self.clocks.sleep(pause_s)
        return Sending(number, SendState.SENT, self.clocks.now())

    async def _try(
        self, record: JobRecord, notification: Notification, number: int
    ) -> NotDeliveredError | None:
        """Try once; why it did not arrive, None when it did. Raises LeaseLostError."""
        try:
            await asyncio.to_thread(self.confirm)
            await self._send_once(record, notification, number)
        except LeaseLostError:
            raise
        except NotDeliveredError as error:
            return error
        except TpuctlError as error:  # the bucket is away, or the value is not known here
            return NotDeliveredError(str(error))
        except Exception as error:  # noqa: BLE001 - a message must never fail its job
            return NotDeliveredError(f"a bug in tpuctl: {type(error).__name__}", is_final=True)
        return None

    async def _send_once(self, record: JobRecord, notification: Notification, number: int) -> None:
        target = (record.spec.notify or ())[number]
        message = message_of(record, notification, self.fence)
        if target.command:
            await self._run(record, target, message)
            return
        secret = await asyncio.to_thread(self._secret, record, target)
        message = _redacted(message, [secret, *self.vault.known_values(record)])
        await _post(target, secret, message)

    async def _run(
        self, record: JobRecord, target: NotifyTarget, message: NotificationMessage
    ) -> None:
        if not await asyncio.to_thread(self.may_run, record, target.command):
            host = submitting_host(record)
            raise NotDeliveredError(
                f"a command runs on {host} alone, where the job was submitted", is_final=True
            )
        await command.run(target.command, _redacted(message, self.vault.known_values(record)))

    def _secret(self, record: JobRecord, target: NotifyTarget) -> str:
        """The URL or the password of a target. Raises TpuctlError."""
        reference = target.reference
        if not reference:
            return target.where
        if reference.startswith(SECRET_MANAGER):
            return self.read_secret(reference)
        return self.vault.value_at(record, reference)


def _post(target: NotifyTarget, secret: str, message: NotificationMessage) -> Awaitable[None]:
    if target.mail is not None:
        return mail.send(target.mail, secret, message)
    url = secret.strip()
    _require_private(target, url)
    return http_post.post(REQUESTS[target.kind](url, message))


def _require_private(target: NotifyTarget, url: str) -> None:
    """Raise NotDeliveredError unless it is a URL, and one of https for a chat."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise NotDeliveredError("its URL is not one", is_final=True)
    is_plain = parts.scheme == "http" and parts.hostname not in LOOPBACK
    if is_plain and target.kind in CHATS:
        raise NotDeliveredError("its URL does not begin with https://", is_final=True)


def _redacted(message: NotificationMessage, values: Sequence[str]) -> NotificationMessage:
    """A program may print what it was not given as a secret."""
    return replace(
        message,
        title=redact(message.title, values),
        details=tuple(redact(line, values) for line in message.details),
        last_lines=tuple(redact(line, values) for line in message.last_lines),
    )


def _with_sending(record: JobRecord, notification_id: str, sending: Sending) -> JobRecord:
    notifications = tuple(
        replace(each, sendings=tuple(_replaced(each.sendings, sending)))
        if each.notification_id == notification_id
        else each
        for each in record.notifications
    )
    return replace(record, notifications=notifications)


def _replaced(sendings: Sequence[Sending], new: Sending) -> Sequence[Sending]:
    return [new if each.target == new.target else each for each in sendings]


def no_secret_manager(reference: str) -> str:
    """What reads `sm://` references where nothing can. Raises PreconditionError."""
    raise PreconditionError(f"{reference} cannot be read from here")
