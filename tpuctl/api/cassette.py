"""A recording of Cloud TPU API traffic, without what is private: one JSON object a line.

The first line is a header, every other one a call and its answer. The format is public:
docs/cassette.md.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tpuctl.errors import ConflictError, DamagedStateError, LocalIOError

SCHEMA = 1
REDACTED = "redacted"
PROJECT = "recorded-project"
PROJECT_NUMBER = "123456789012"
ADDRESS = "203.0.113.1"

_SUBSTITUTIONS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"projects/\d+"), f"projects/{PROJECT_NUMBER}"),
    (re.compile(r"projects/(?!\d)[^/\s'\"?]+"), f"projects/{PROJECT}"),
    (re.compile(r"\bservice-\d+@"), f"service-{PROJECT_NUMBER}@"),
    (re.compile(r"\b\d+-compute@"), f"{PROJECT_NUMBER}-compute@"),
    (
        re.compile(r"(?<![\w.+-])(?!service-\d+@|\d+-compute@)[\w.+-]+(?:@|%40)[\w-]+(\.[\w-]+)+"),
        f"{REDACTED}@example.com",
    ),
    (re.compile(r"\b((?:resource|in|for) project )(?!\d)[\w-]+"), rf"\1{PROJECT}"),
    (re.compile(r"\b((?:resource|in|for) project )\d+"), rf"\g<1>{PROJECT_NUMBER}"),
    (re.compile(r"\bya29\.[\w.-]+|\beyJ[\w-]+\.[\w-]+\.[\w-]+|\bAIza[\w-]{35}"), REDACTED),
)
_PARAMETER = re.compile(r"([?&]([^=&\s]+)=)[^&\s]+")
_PRIVATE_PARAMETERS = frozenset({"key", "access_token", "oauth_token", "quotaUser"})
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")
_PRIVATE = re.compile(r"10\.|127\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.")
_PRIVATE_MAPS = frozenset({"labels", "metadata"})
"""Maps whose values people choose: keys and ssh users, tokens, scripts."""
_PRIVATE_TEXTS = frozenset({"description", "kmsKeyName"})
_PUBLIC_NAMESPACES = frozenset({"hostkeys", "guest-attributes"})


@dataclass(frozen=True, slots=True)
class Cassette:
    """A file to which several processes may add calls at once."""

    path: Path
    started_s: float
    project: str
    """Its id is replaced wherever it stands."""

    def add(self, call: str, called_s: float, entry: Mapping[str, Any]) -> None:
        """Add one call, redacted; `called_s` is when it was made, in seconds since the epoch."""
        document = {"t_s": round(called_s - self.started_s, 3), "call": call, **entry}
        _append(self.path, _replace_project(redact(document), self.project))


def create(path: Path, started_s: float, project: str) -> Cassette:
    """A new cassette; raises ConflictError when the file is there, LocalIOError."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        hint = "choose another file with --to"
        raise ConflictError(f"{path} exists already", hint=hint) from None
    except OSError as error:
        raise LocalIOError(f"cannot write {path}: {error.strerror}") from error
    os.close(descriptor)
    _append(path, {"cassette": SCHEMA, "api": "tpu.googleapis.com", "started_s": started_s})
    return Cassette(path, started_s, project)


def reopen(path: Path, project: str) -> Cassette:
    """The cassette that another process has begun; raises DamagedStateError."""
    try:
        with path.open(encoding="utf-8") as lines:
            header = json.loads(lines.readline())
        if header["cassette"] != SCHEMA:
            raise ValueError("its schema is not known")
        return Cassette(path, float(header["started_s"]), project)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedStateError(f"cannot add to the cassette {path}: {error}") from error


def count_calls(path: Path) -> int:
    """The number of calls on the cassette."""
    with path.open(encoding="utf-8") as lines:
        return sum(1 for _ in lines) - 1


def redact(value: Any, name: str = "") -> Any:
    """The JSON value with everything private replaced; `name` is the key it stands under."""
    if isinstance(value, Mapping):
        return _redact_mapping(value, name)
    if isinstance(value, list):
        return [redact(item, name) for item in value]
    if not isinstance(value, str):
        return value
    return REDACTED if name in _PRIVATE_TEXTS and value else _without_names(value)


def _replace_project(document: Any, project: str) -> Any:
    """The document without the project's id, in plain sentences too."""
    if isinstance(document, Mapping):
        return {key: _replace_project(value, project) for key, value in document.items()}
    if isinstance(document, list):
        return [_replace_project(item, project) for item in document]
    if isinstance(document, str) and project:
        return re.sub(rf"(?<![\w-]){re.escape(project)}(?![\w-])", PROJECT, document)
    return document


def _redact_mapping(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    if name in _PRIVATE_MAPS and "@type" not in value:
        return {_without_names(key): item and REDACTED for key, item in value.items()}
    if value.keys() == {"namespace", "key", "value"}:
        public = value["namespace"] in _PUBLIC_NAMESPACES
        return {**value, "value": value["value"] if public else REDACTED}
    return {_without_names(key): redact(item, key) for key, item in value.items()}


def _without_names(text: str) -> str:
    for pattern, substitute in _SUBSTITUTIONS:
        text = pattern.sub(substitute, text)
    text = _PARAMETER.sub(_hide_parameter, text)
    return _ADDRESS.sub(lambda at: at[0] if _PRIVATE.match(at[0]) else ADDRESS, text)


def _hide_parameter(found: re.Match[str]) -> str:
    is_private = unquote(found[2]).removeprefix("$") in _PRIVATE_PARAMETERS
    return f"{found[1]}{REDACTED}" if is_private else found[0]


def _append(path: Path, document: Mapping[str, Any]) -> None:
    line = json.dumps(document, separators=(",", ":")) + "\n"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, line.encode())  # one write: lines of several processes stay whole
        finally:
            os.close(descriptor)
    except OSError as error:
        raise LocalIOError(f"cannot write {path}: {error.strerror}") from error
