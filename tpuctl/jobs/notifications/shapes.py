"""One message in the shape that each service takes: an HTTP request as data. Pure."""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from tpuctl.jobs.notifications.messages import URGENT, NotificationMessage
from tpuctl.models.notify.notify_spec import NotifyEvent, TargetKind

SCHEMA = 1
DISCORD_CHARS = 2000
"""The longest `content` of a message of Discord."""
CHAT_CHARS = 4000
"""Slack breaks longer texts into several messages; Google Chat takes 32,000 bytes."""
NTFY_BYTES = 4096
"""What is longer becomes an attachment."""
SEQUENCE_CHARS = 64
REPEAT_NOTE = "(this may be a repeat)"
JSON_HEADERS = {"Content-Type": "application/json; charset=utf-8"}
NTFY_TAGS = {
    NotifyEvent.STARTED: "arrow_forward",
    NotifyEvent.PREEMPTED: "warning",
    NotifyEvent.RESUMED: "arrows_counterclockwise",
    NotifyEvent.FAILED: "rotating_light",
    NotifyEvent.FINISHED: "white_check_mark",
    NotifyEvent.OVER_BUDGET: "money_with_wings",
    NotifyEvent.UNSUPERVISED: "warning",
    NotifyEvent.IDLE: "zzz",
}


@dataclass(frozen=True, slots=True)
class NotificationRequest:
    """A POST request that delivers a message."""

    url: str
    headers: Mapping[str, str]
    body: bytes


def slack_request(url: str, message: NotificationMessage) -> NotificationRequest:
    """An incoming webhook's message: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks."""
    text = message_text(message, CHAT_CHARS, bold="*")
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _json_request(url, message, {"text": escaped})


def discord_request(url: str, message: NotificationMessage) -> NotificationRequest:
    """Execute Webhook: https://discord.com/developers/docs/resources/webhook#execute-webhook.

    Nobody is mentioned, whatever a program printed.
    """
    content = message_text(message, DISCORD_CHARS, bold="**")
    return _json_request(url, message, {"content": content, "allowed_mentions": {"parse": []}})


def google_chat_request(url: str, message: NotificationMessage) -> NotificationRequest:
    """spaces.messages.create: https://developers.google.com/workspace/chat/api/reference/rest/v1/spaces.messages/create.

    Its `requestId` makes a request that is sent again return the first message. The text must be
    the same then: it does not say that it may be a repeat.
    """
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query)) | {"requestId": message.notification_id}
    addressed = urlunsplit(parts._replace(query=urlencode(query)))
    text = message_text(message, CHAT_CHARS, bold="*", repeat_note="")
    return _json_request(addressed, message, {"text": text})


def webhook_request(url: str, message: NotificationMessage) -> NotificationRequest:
    """Our own JSON object. Keys are public."""
    return _json_request(_without_user(url), message, document(message), _authorization(url))


def ntfy_request(url: str, message: NotificationMessage) -> NotificationRequest:
    """A message of ntfy: https://docs.ntfy.sh/publish.

    A message with the same sequence ID replaces the first one in the app, from ntfy 2.16 on.
    """
    note = f"\n{REPEAT_NOTE}" if message.is_repeat else ""
    headers = {
        "Title": _header(message.title),
        "Priority": "high" if message.event in URGENT else "default",
        "Tags": NTFY_TAGS[message.event],
        "X-Sequence-ID": _sequence_id(message.notification_id),
        "Idempotency-Key": message.notification_id,
        "Content-Type": "text/plain; charset=utf-8",
        **_authorization(url),
    }
    body = f"{message.plain_text}{note}".encode()[:NTFY_BYTES].decode("utf-8", "ignore").encode()
    return NotificationRequest(_without_user(url), headers, body)


REQUESTS: Mapping[TargetKind, Callable[[str, NotificationMessage], NotificationRequest]] = {
    TargetKind.SLACK: slack_request,
    TargetKind.DISCORD: discord_request,
    TargetKind.GOOGLE_CHAT: google_chat_request,
    TargetKind.WEBHOOK: webhook_request,
    TargetKind.NTFY: ntfy_request,
}


def document(message: NotificationMessage) -> dict[str, Any]:
    """A message as a JSON object. Keys are public."""
    return {
        "schema": SCHEMA,
        "id": message.notification_id,
        "event": message.event,
        "time": message.time,
        "repeat": message.is_repeat,
        "title": message.title,
        "text": message.plain_text,
        "job": message.job_id,
        "name": message.name,
        "state": message.state,
        "attempt": message.attempt,
        "accelerator_type": message.accelerator_type,
        "zone": message.zone,
        "owner": message.owner,
        "first_worker": message.first_worker,
        "last_lines": list(message.last_lines),
    }


def message_text(
    message: NotificationMessage, chars: int, *, bold: str, repeat_note: str = REPEAT_NOTE
) -> str:
    """A message for a chat, at most `chars` characters: lines of the log go first, from the top."""
    note = f" {repeat_note}" if message.is_repeat and repeat_note else ""
    head = "\n".join([f"{bold}{message.title}{bold}{note}", *message.details])
    foot = f"\n`{message.command}`"
    lines = [line.replace("```", "'''") for line in message.last_lines]
    while lines and len(head) + len(foot) + len(_fenced(lines)) > chars:
        lines.pop(0)
    return f"{head[: chars - len(foot)]}{_fenced(lines)}{foot}"


def _fenced(lines: list[str]) -> str:
    return "\n```\n" + "\n".join(lines) + "\n```" if lines else ""


def _json_request(
    url: str,
    message: NotificationMessage,
    found: Mapping[str, Any],
    more: Mapping[str, str] | None = None,
) -> NotificationRequest:
    headers = {**JSON_HEADERS, "Idempotency-Key": message.notification_id, **(more or {})}
    return NotificationRequest(url, headers, json.dumps(found).encode())


def _header(text: str) -> str:
    """A text as a header may have it: RFC 2047 where it is not ASCII."""
    if text.isascii():
        return text
    return f"=?UTF-8?B?{base64.b64encode(text.encode()).decode()}?="


def _sequence_id(notification_id: str) -> str:
    """Letters, digits, - and _ alone: its end is what tells the messages of a job apart."""
    return notification_id.replace(".", "_")[-SEQUENCE_CHARS:]


def _authorization(url: str) -> dict[str, str]:
    """The user and password of a URL, as a header: a token of ntfy is a password without a user."""
    parts = urlsplit(url)
    if parts.username is None and parts.password is None:
        return {}
    pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def secret_parts(url: str) -> list[str]:
    """What of a URL must not be shown, as it may come back in an answer."""
    parts = urlsplit(url)
    values = [value for _, value in parse_qsl(parts.query)]
    found = [url, parts.path, *parts.path.split("/"), *values, parts.username, parts.password]
    return [each for each in found if each] + [quote(each, safe="") for each in values]
