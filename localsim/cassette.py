"""Reading a recording of real Cloud TPU API traffic: docs/cassette.md."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMA = 1


class CassetteError(Exception):
    """The file cannot be used; str() is one line."""


@dataclass(frozen=True, slots=True)
class Call:
    """One recorded call: `wire` is grpc or rest, `what` the method or `VERB PATH`."""

    line: int
    at_s: float
    """Since the recording began."""
    wire: str
    what: str
    request: Any
    answer: Mapping[str, Any]
    """`response`, and `status` over REST; or `error` with `code` and `message` over gRPC."""

    @property
    def is_read(self) -> bool:
        """Whether it can be repeated without changing anything."""
        name = self.what.rpartition("/")[2] if self.wire == "grpc" else self.what
        return name.startswith(("Get", "List", "GET "))


def load(path: Path) -> list[Call]:
    """The calls in their order; raises CassetteError."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CassetteError(f"cannot read {path}: {error}") from error
    documents = [_document(path, number, line) for number, line in enumerate(lines, 1)]
    if not documents or documents[0].get("cassette") != SCHEMA:
        raise CassetteError(f"{path} is not a cassette of schema {SCHEMA}")
    calls = [_call(path, number, each) for number, each in enumerate(documents[1:], 2)]
    return sorted(calls, key=lambda call: call.at_s)  # several processes may have written it


def _document(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except ValueError:
        raise CassetteError(f"{path}, line {number}: it is not JSON") from None
    if not isinstance(document, dict):
        raise CassetteError(f"{path}, line {number}: it is not a JSON object")
    return document


def _call(path: Path, number: int, document: Mapping[str, Any]) -> Call:
    try:
        wire, _, what = document["call"].partition(" ")
        if wire not in ("grpc", "rest"):
            raise ValueError(f"unknown wire {wire!r}")
        answer = {key: document[key] for key in ("response", "status", "error") if key in document}
        return Call(number, float(document["t_s"]), wire, what, document.get("request"), answer)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise CassetteError(f"{path}, line {number}: it is not a call: {error}") from None
