"""Dataclasses of the simulated cloud as messages, and messages as dataclasses.

An attribute stands for the field of its name. Times and durations are seconds here and messages
there, so `create_time_s` is `create_time`; the installed classes write `type` as `type_`.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from localsim.rules.model.cloud_errors import CloudError, invalid

Fields = Mapping[str, Any]
"""Plain values by attribute; None is a field that is not set."""
Given = Any
"""Fields, or a dataclass with such attributes."""
NANOS = 1_000_000_000

_Convert = Callable[[Any], Any]
_Kind = TypeVar("_Kind")
_ATTRIBUTES = {
    "network_config": "network",
    "network_configs": "networks",
    "scheduling_config": "scheduling",
    "source_disk": "source",
    "scope": "scopes",
    "termination_timestamp": "termination_time_s",
    "multislice_node": "multislice",
}
"""The attributes that are not called as their fields."""


def build_message(kind: Any, given: Given) -> Any:
    """A message with those of the given fields, at any depth, that its class has."""
    return kind(**_known(kind.DESCRIPTOR, given))


def fields_of(given: Given) -> Fields:
    """The attributes of a dataclass by name, not those below them; a mapping as it is."""
    if isinstance(given, Mapping):
        return given
    return {name: getattr(given, name) for name in _names(given.__class__)}


def read_message(kind: type[_Kind], message: Any, **given: Any) -> _Kind:
    """A dataclass whose attributes, but for the given ones, are read from a message.

    Those that the message's version lacks have their defaults. Raises CloudError for the number of
    an enum that has no name, and for a time that nothing can have.
    """
    source: Any = kind
    for name, read in _readers(source, message.DESCRIPTOR):
        if name not in given:
            given[name] = read(message)
    return kind(**given)


def seconds(message: Any) -> float:
    """The seconds of a Timestamp or Duration; raises CloudError outside of the allowed range."""
    try:
        message.ToJsonString()
    except ValueError:
        name = message.DESCRIPTOR.full_name
        raise _invalid_value("value", name, f"{message.seconds} s {message.nanos} ns") from None
    return float(message.seconds + message.nanos / NANOS)


def optional_seconds(message: Any, field: str) -> float | None:
    """Seconds of a timestamp or duration; None when it is unset or the version lacks the field."""
    if not (hasattr(message, field) and message.HasField(field)):
        return None
    return seconds(getattr(message, field))


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _known(descriptor: Descriptor, given: Given) -> Fields:
    plan = _plan(descriptor)
    known: dict[str, Any] = {}
    for name, value in fields_of(given).items():
        if value is not None and name in plan:
            field, convert = plan[name]
            known[field] = value if convert is None else convert(value)
    return known


@cache
def _plan(descriptor: Descriptor) -> Mapping[str, tuple[str, _Convert | None]]:
    """By attribute: the message's field for it, and how the value is converted."""
    return {_attribute(field): (field.name, _conversion(field)) for field in descriptor.fields}


def _attribute(field: FieldDescriptor) -> str:
    is_time = field.message_type is not None and field.message_type.full_name in _FROM_SECONDS
    plain = f"{field.name}_s" if is_time else field.name.rstrip("_")
    return _ATTRIBUTES.get(field.name, plain)


def _conversion(field: FieldDescriptor) -> _Convert | None:
    if field.enum_type is not None:
        values = field.enum_type.values_by_name
        # A generation may be newer than these messages: a field that is None is not set.
        return lambda name: name if name in values else None
    kind = field.message_type
    if kind is None or kind.GetOptions().map_entry:
        return None
    if kind.full_name in _FROM_SECONDS:
        return _FROM_SECONDS[kind.full_name]
    if field.is_repeated:
        return lambda items: [_known(kind, item) for item in items]
    return lambda given: _known(kind, given)


@cache
def _readers(kind: Any, descriptor: Descriptor) -> Sequence[tuple[str, _Convert]]:
    """The attributes of a dataclass that a message has fields for, and how each is read."""
    fields = {_attribute(field): field for field in descriptor.fields}
    types = get_type_hints(kind)
    readers = []
    for attribute in dataclasses.fields(kind):
        name, is_required = attribute.name, attribute.default is dataclasses.MISSING
        if name in fields:
            readers.append((name, _reader(fields[name], types[name], is_required=is_required)))
    return readers


def _reader(field: FieldDescriptor, type_: Any, *, is_required: bool) -> _Convert:
    """How an attribute of that type is read from a message with the field."""
    name, kind = field.name, field.message_type
    if field.enum_type is not None:  # what is unspecified has a name only where one is required
        return lambda message: (
            _enum_name(message, field) if is_required or getattr(message, name) else ""
        )
    if kind is None:
        return lambda message: (
            tuple(getattr(message, name)) if field.is_repeated else getattr(message, name)
        )
    if kind.GetOptions().map_entry:
        return lambda message: dict(getattr(message, name))
    if kind.full_name in _FROM_SECONDS:
        return lambda message: optional_seconds(message, name)
    inner: Any = next(part for part in (type_, *get_args(type_)) if dataclasses.is_dataclass(part))
    if field.is_repeated:
        return lambda message: tuple(read_message(inner, item) for item in getattr(message, name))
    is_optional = NoneType in get_args(type_)
    return lambda message: (
        None
        if is_optional and not message.HasField(name)
        else read_message(inner, getattr(message, name))
    )


def _enum_name(message: Any, field: FieldDescriptor) -> str:
    """The name of an enum's value; raises CloudError for a number that has none."""
    number = getattr(message, field.name)
    value = field.enum_type.values_by_number.get(number)
    if value is None:
        raise _invalid_value(field.name.rstrip("_"), field.enum_type.full_name, number)
    return str(value.name)


def _invalid_value(field: str, kind: str, value: Any) -> CloudError:
    return invalid(f"Invalid value at '{field}' (type.googleapis.com/{kind}), {value}")


def _whole_and_nanos(nanos: int) -> Fields:
    whole, rest = divmod(nanos, NANOS)
    return {"seconds": whole, "nanos": rest}


_FROM_SECONDS: Mapping[str, _Convert] = {
    # To the microsecond.
    "google.protobuf.Timestamp": lambda s: _whole_and_nanos(round(s * 1_000_000) * 1000),
    "google.protobuf.Duration": lambda s: _whole_and_nanos(round(s * NANOS)),
}
