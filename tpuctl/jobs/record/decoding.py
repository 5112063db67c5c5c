"""JSON of the bucket becomes values of the right types: whoever may write there wrote it.

A program on a slice may write to the bucket too, so nothing that is read is trusted to be what
tpuctl wrote. Everything that is wrong is a MalformedError.
"""

import json
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache, partial
from typing import Any, TypeVar

T = TypeVar("T")
JOB_ID = re.compile(r"[a-z0-9][-a-z0-9]{0,62}")
"""What may be a job's id: objects, slices and files are named by it."""
LARGEST = 10**15
"""The largest number: above it, a double cannot hold every whole number."""
LATEST_S = 253402300799
"""The last second of the year 9999: a later one has no date."""


class MalformedError(ValueError):
    """What was read is not what it should be."""


def parse_document(data: bytes) -> dict[str, Any]:
    """The JSON object of some bytes. Raises MalformedError."""
    try:
        found = json.loads(data)
    except RecursionError:
        raise MalformedError("it is nested too deeply") from None
    except ValueError as error:
        raise MalformedError(str(error)) from error
    return _expect(dict, found)


def is_newer(found: Mapping[str, Any], schema: int) -> bool:
    """Whether a newer tpuctl wrote the document.

    Raises MalformedError when it does not say its schema, or an older one.
    """
    given = _whole(found.get("schema"))
    if given < schema:
        raise MalformedError(f"its schema is {given}, this tpuctl reads {schema}")
    return given > schema


def check_job_id(job_id: str) -> str:
    """The job's id; raises MalformedError for what cannot be one."""
    if not JOB_ID.fullmatch(job_id):
        raise MalformedError("it is not the name of a job")
    return job_id


def decode_dataclass(kind: type[T], found: object) -> T:
    """A dataclass from JSON; a field that this version does not know is left out.

    Raises MalformedError, which names the field.
    """
    given = _expect(dict, found)
    taken = {}
    for name, hint, is_required in _shape(typing.cast(Any, kind)):
        if name in given:
            taken[name] = _field(name, hint, given[name])
        elif is_required:
            raise MalformedError(f"{name} is missing")
    return kind(**taken)


def decode_value(hint: Any, found: Any) -> Any:
    """The JSON value as the type hint wants it. Raises MalformedError."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, types.UnionType):
        return _one_of(inner, found)
    if origin is tuple:
        return tuple(decode_value(inner[0], item) for item in _expect(list, found))
    if origin is Mapping:
        return {
            _text(key): decode_value(inner[1], item) for key, item in _expect(dict, found).items()
        }
    if is_dataclass(hint) and isinstance(hint, type):
        return decode_dataclass(hint, found)
    if issubclass(hint, StrEnum):
        return _member(hint, found)
    return SCALARS[hint](found)


def _field(name: str, hint: Any, found: Any) -> Any:
    try:
        right = decode_value(hint, found)
        if name.endswith("_s") and abs(right or 0) > LATEST_S:
            raise MalformedError(f"{right:g} is out of range")
    except MalformedError as error:
        raise MalformedError(f"{name}: {error}") from error
    return right


@cache
def _shape(kind: type) -> list[tuple[str, Any, bool]]:
    """Every field of a dataclass: its name, its type, and whether it must be there."""
    hints = typing.get_type_hints(kind)
    return [
        (field.name, hints[field.name], field.default is field.default_factory is MISSING)
        for field in fields(kind)
    ]


def _one_of(kinds: tuple[Any, ...], found: Any) -> Any:
    """The first kind that it is: nothing where that is allowed, a number or a text."""
    if found is None and types.NoneType in kinds:
        return None
    if isinstance(found, float) and not abs(found) <= LARGEST and str in kinds:
        return str(found)  # `loss=nan` or `loss=1e30`, as a program printed it
    *others, last = (kind for kind in kinds if kind is not types.NoneType)
    for kind in others:
        try:
            return decode_value(kind, found)
        except MalformedError:
            continue
    return decode_value(last, found)


def _expect(kind: type[T], found: object) -> T:
    if not isinstance(found, kind):
        raise MalformedError(f"{_excerpt(found)} is not of type {NAMES[kind]}")
    return found


def _text(found: object) -> str:
    """Half of a surrogate pair, which no output can hold, becomes a question mark."""
    text = _expect(str, found)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _whole(found: object) -> int:
    if isinstance(found, bool) or not isinstance(found, int) or abs(found) > 2**63:
        raise MalformedError(f"{_excerpt(found)} is not a whole number")
    return found


def _number(found: object) -> float:
    is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
    if not is_number or not abs(found) <= LARGEST:  # type: ignore[arg-type]
        raise MalformedError(f"{_excerpt(found)} is not a number")
    return found  # type: ignore[return-value]


def _member(kind: type[StrEnum], found: object) -> StrEnum:
    try:
        return kind(_expect(str, found))
    except ValueError as error:
        raise MalformedError(f"{_excerpt(found)} is not one of {', '.join(kind)}") from error


def _excerpt(found: object) -> str:
    """A value on one line, not all of it when it is long."""
    if isinstance(found, (dict, list)):
        return f"a {NAMES[type(found)]}"
    text = repr(found) if isinstance(found, str) else json.dumps(found)
    return text if len(text) <= 40 else f"{text[:40]}…"


SCALARS: Mapping[type, Callable[[object], Any]] = {
    str: _text,
    int: _whole,
    float: _number,
    bool: partial(_expect, bool),
}
NAMES: Mapping[type, str] = {dict: "object", list: "list", str: "text", bool: "true or false"}
