"""Recordings of real Cloud TPU API traffic, as docs/cassette.md describes them."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localsim.clock import MAX_ADVANCE_S

SCHEMA = 1
_CALLS = {
    "grpc": re.compile(r"/[\w.]+/\w+", re.ASCII),
    "rest": re.compile(r"[A-Z]+ /[!-~]*"),  # a path: nothing in it chooses another host
}
"""Wire -> what can be called over it."""


class CassetteError(Exception):
    """The file cannot be used; str() is one line."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
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


def load(path: Path) -> list[RecordedCall]:
    """The calls of a cassette in their order; raises CassetteError."""
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
    except (ValueError, RecursionError):
        raise CassetteError(f"{path}, line {number}: it is not JSON") from None
    if not isinstance(document, dict):
        raise CassetteError(f"{path}, line {number}: it is not a JSON object")
    return document


def _call(path: Path, number: int, document: Mapping[str, Any]) -> RecordedCall:
    try:
        wire, _, what = document["call"].partition(" ")
        if wire not in _CALLS:
            raise ValueError(f"unknown wire {wire!r}")
        if not _CALLS[wire].fullmatch(what):
            raise ValueError(f"{what[:200]!r} cannot be called")
        at_s = float(document["t_s"])
        if not abs(at_s) <= MAX_ADVANCE_S:  # nan is neither
            raise ValueError(f"{at_s} is not a time of a recording")
        answer = {key: document[key] for key in ("response", "status", "error") if key in document}
        return RecordedCall(number, at_s, wire, what, document.get("request"), answer)
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise CassetteError(f"{path}, line {number}: it is not a call: {error}") from None
