"""Frozen dataclasses to JSON text and back, by their type hints.

A field that holds its default is left out: most fields of a node do.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

Record = TypeVar("Record")
Reader = Callable[[Any], Any]
"""From parsed JSON to the value of a field."""


def encode(record: Any) -> str:
    """The record as one JSON object."""
    return _encoder.encode(record)


def decode(kind: type[Record], text: str) -> Record:
    """The record of that kind; a field that the text lacks takes its default.

    Raises ValueError, LookupError, TypeError or AttributeError for another text.
    """
    record: Record = _record_reader(kind)(json.loads(text))  # type: ignore[arg-type]
    return record


def _fields_of(record: Any) -> dict[str, Any]:
    values = ((name, getattr(record, name), default) for name, default in _defaults(type(record)))  # type: ignore[arg-type]
    return {name: value for name, value, default in values if value != default}


_encoder = json.JSONEncoder(default=_fields_of, separators=(",", ":"))


@cache
def _defaults(kind: type) -> tuple[tuple[str, Any], ...]:
    return tuple((each.name, _default(each)) for each in fields(kind))


def _default(each: "Field[Any]") -> Any:
    if each.default_factory is not MISSING:
        return each.default_factory()
    return each.default  # MISSING equals no value


@cache
def _record_reader(kind: type) -> Reader:
    readers = {name: _reader(hint) for name, hint in get_type_hints(kind).items()}
    changing = {name: reader for name, reader in readers.items() if reader is not None}

    def read(values: dict[str, Any]) -> Any:
        for name in values.keys() & changing.keys():
            if values[name] is not None:
                values[name] = changing[name](values[name])
        try:
            return kind(**values)
        except TypeError:
            raise ValueError(_misfit(kind, values)) from None

    return read


def _misfit(kind: type, values: Mapping[str, Any]) -> str:
    """Which keys do not make a record of that kind."""
    defaults = dict(_defaults(kind))
    missing = [each for each, default in defaults.items() if default is MISSING]
    lacks = [f"lacks {each!r}" for each in missing if each not in values]
    unknown = [f"has an unknown {each!r}" for each in values if each not in defaults]
    return f"the {kind.__name__} {(lacks + unknown)[0]}"


def _reader(hint: Any) -> Reader | None:
    """How to read a value of that type; None when JSON has it as it is."""
    if get_origin(hint) is Mapping:
        return None
    if get_origin(hint) is tuple:
        return _tuple_reader(_reader(get_args(hint)[0]))
    if NoneType in get_args(hint):
        return _reader(next(kind for kind in get_args(hint) if kind is not NoneType))
    if is_dataclass(hint):
        return _record_reader(hint)  # type: ignore[arg-type]
    return hint if isinstance(hint, type) and issubclass(hint, Enum) else None


def _tuple_reader(item: Reader | None) -> Reader:
    if item is None:
        return tuple
    return lambda values: tuple(item(value) for value in values)
