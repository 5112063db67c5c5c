"""The field `notify` of a job file, and the same targets as a context has them."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tpuctl import bounded_yaml
from tpuctl.bounded_yaml import YamlError
from tpuctl.errors import UsageError
from tpuctl.jobs.secrets import job_secrets
from tpuctl.jobs.spec import job_file_schema
from tpuctl.jobs.spec.job_file_schema import Document
from tpuctl.models.notify.notify_spec import (
    DEFAULT_EVENTS,
    MAIL_PORTS,
    MailSecurity,
    MailSettings,
    NotifyEvent,
    NotifyTarget,
    TargetKind,
)

TOKEN = re.compile(r"(?=[^/]*[0-9])(?=[^/]*[A-Za-z])[A-Za-z0-9_-]{20,}")
"""A part of a path that is as long and as mixed as the tokens of webhooks are."""
HINT = "run: tpuctl help notifications"


def read_notify(
    document: Document, resolve: Callable[[str, str], Path]
) -> tuple[NotifyTarget, ...] | None:
    """The targets of the section `notify`; None where the file has none. Raises UsageError.

    `resolve` makes an absolute path of one of the file and its place.
    """
    if "notify" not in document.lines:
        return None
    return tuple(_target(document, path, resolve) for path in _items(document))


def read_targets(texts: Sequence[str]) -> tuple[NotifyTarget, ...]:
    """The targets of a context, each in the words of a job file. Raises UsageError."""
    return tuple(map(read_target, texts))


def read_target(text: str) -> NotifyTarget:
    """One target as `--notify` has it: `slack: env:SLACK_URL`, or a mapping in braces.

    Raises UsageError, which never repeats the text: it may hold a secret.
    """
    try:
        node = bounded_yaml.compose_text(text)
    except YamlError as error:
        raise UsageError("a target of --notify is not YAML", hint=HINT) from error
    document = job_file_schema.read_part(node, "notify", "--notify")
    return _target(document, "--notify", _absolute)


def _items(document: Document) -> Iterator[str]:
    number = 0
    while f"notify[{number}]" in document.lines:
        yield f"notify[{number}]"
        number += 1


def _target(document: Document, path: str, resolve: Callable[[str, str], Path]) -> NotifyTarget:
    kinds = [kind for kind in TargetKind if f"{path}.{kind}" in document.lines]
    if len(kinds) != 1:
        found = f"has {' and '.join(kinds)}" if kinds else "has no receiver"
        raise UsageError(
            f"{document.place(path)} {found}",
            hint=f"write one of {', '.join(TargetKind)} for each target",
        )
    kind, place = kinds[0], f"{path}.{kinds[0]}"
    events = document.get(f"{path}.events")
    heard = DEFAULT_EVENTS if events is None else tuple(map(NotifyEvent, dict.fromkeys(events)))
    if kind == TargetKind.EMAIL:
        return NotifyTarget(kind, events=heard, mail=_mail(document, place, resolve))
    if kind == TargetKind.COMMAND:
        return NotifyTarget(kind, events=heard, command=_command(document, place))
    return NotifyTarget(kind, _where(document, place, resolve), heard)


def _mail(document: Document, path: str, resolve: Callable[[str, str], Path]) -> MailSettings:
    given: dict[str, Any] = document.below(path)
    security = MailSecurity(given.get("tls", MailSecurity.STARTTLS))
    if ("user" in given) != ("password" in given):
        missing = "password" if "user" in given else "user"
        raise UsageError(f"{document.place(path)} has no {missing}", hint="write both or neither")
    if "user" in given and security == MailSecurity.NONE:
        raise UsageError(
            f"{document.place(path)} would send its password without encryption",
            hint="write tls: starttls, or leave out user and password",
        )
    to = given["to"]
    return MailSettings(
        to=(to,) if isinstance(to, str) else tuple(to),
        sender=given["from"],
        host=given["host"],
        port=given.get("port", MAIL_PORTS[security]),
        security=security,
        user=given.get("user", ""),
        password=_where(document, f"{path}.password", resolve) if "password" in given else "",
    )


def _command(document: Document, path: str) -> tuple[str, ...]:
    words = tuple(document.get(path))
    if not words or not words[0]:
        raise UsageError(f"{document.place(path)} has no program", hint="write [PROGRAM, ARGUMENT]")
    return words


def _where(document: Document, path: str, resolve: Callable[[str, str], Path]) -> str:
    """Where a secret is, with an absolute path for a file, or a URL that has none."""
    given: str = document.get(path)
    if given.startswith(job_secrets.FILE):
        return f"{job_secrets.FILE}{resolve(given.removeprefix(job_secrets.FILE), path)}"
    if given.startswith("http") and (why := _secret_in(given)):
        raise UsageError(
            f"{document.place(path)} is a URL with {why}, which everybody who reads the job "
            "could use",
            hint="keep the URL elsewhere, and write env:NAME, file:PATH or sm://projects/P/"
            "secrets/S",
        )
    return given


def _secret_in(url: str) -> str | None:
    """What in a URL looks like a secret; None where nothing does."""
    try:
        found = urlsplit(url)
        _ = found.port
    except ValueError:
        return "a port that is not a number"
    if not found.hostname:
        return "no host"
    if "@" in found.netloc:
        return "a user or a password"
    if found.query or found.fragment:
        return "a query"
    return "a token in its path" if TOKEN.search(found.path) else None


def _absolute(name: str, place: str) -> Path:
    path = Path(name).expanduser()
    if not path.is_absolute():
        raise UsageError(
            f"{place}: file:{name} is not an absolute path",
            hint="a context is used from every directory: write file:/PATH",
        )
    return path
