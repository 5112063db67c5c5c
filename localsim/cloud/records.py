"""Frozen dataclasses as JSON text and back, by their own type hints."""

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

Record = TypeVar("Record")


def encode(record: Any) -> str:
    """The record as one JSON object."""
    return json.dumps(asdict(record), separators=(",", ":"))


def decode(kind: type[Record], text: str) -> Record:
    """The record of that kind; a field that the text lacks takes its default."""
    found: Record = _build(kind, json.loads(text))
    return found


_hints = cache(get_type_hints)


def _build(hint: Any, value: Any) -> Any:
    if value is None or isinstance(value, dict) and get_origin(hint) is Mapping:
        return value
    if get_origin(hint) is tuple:
        return tuple(_build(get_args(hint)[0], item) for item in value)
    if type(None) in get_args(hint):
        return _build(next(kind for kind in get_args(hint) if kind is not type(None)), value)
    if not isinstance(hint, type):
        return value
    if is_dataclass(hint):
        return hint(**{name: _build(_hints(hint)[name], item) for name, item in value.items()})
    return hint(value) if issubclass(hint, Enum) else value
